#include "kernels/gemm/gemm.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemm/row.h"

namespace cpuaccel::kernels {

const GemmKernels& gemm_arm64_neon() { return kGemmKernels<NeonFloats, Elements4>; }

}  // namespace cpuaccel::kernels
