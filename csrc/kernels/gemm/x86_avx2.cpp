#include "kernels/gemm/avx2.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/row.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_x86_avx2() { return kGemmKernels<Avx2Floats, Elements8>; }

}  // namespace cpuaccel::kernels
