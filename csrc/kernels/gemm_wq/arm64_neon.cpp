#include "kernels/gemm_wq/kernels_neon.h"

namespace cpuaccel::kernels {

const GemmWqKernels& gemm_wq_arm64_neon() { return kGemmWq<>; }

}  // namespace cpuaccel::kernels
