#include "kernels/batch_norm/impl.h"
#include "kernels/float_vectors/pairs_neon.h"

namespace cpuaccel::kernels {

const BatchNormKernels& batch_norm_arm64_neon() { return kBatchNormKernels<Pairs4>; }

}  // namespace cpuaccel::kernels
