#include "kernels/gemm/avx512.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/row.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_x86_avx512() { return kGemmKernels<Avx512Floats, Elements8>; }

}  // namespace cpuaccel::kernels
