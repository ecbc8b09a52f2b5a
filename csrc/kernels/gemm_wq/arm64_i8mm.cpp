#include "kernels/gemm_wq/kernels_neon.h"

namespace cpuaccel::kernels {

const GemmWqKernels& gemm_wq_arm64_i8mm() { return kGemmWq<2, qgemm_wq_arm64_i8mm>; }

}  // namespace cpuaccel::kernels
