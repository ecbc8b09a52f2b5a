#include "kernels/gemm_wq/codes_avx512.h"
#include "kernels/gemm_wq/tile_x86.h"

namespace cpuaccel::kernels {

const GemmWqKernels& gemm_wq_x86_avx512() { return kGemmWq<Codes16>; }

}  // namespace cpuaccel::kernels
