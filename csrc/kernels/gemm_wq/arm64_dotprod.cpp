#include "kernels/gemm_wq/kernels_neon.h"

namespace cpuaccel::kernels {

const GemmWqKernels& gemm_wq_arm64_dotprod() { return kGemmWq<2, qgemm_wq_arm64_dotprod>; }

}  // namespace cpuaccel::kernels
