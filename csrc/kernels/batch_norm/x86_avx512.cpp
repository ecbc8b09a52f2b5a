#include "kernels/batch_norm/impl.h"
#include "kernels/float_vectors/pairs_avx512.h"

namespace cpuaccel::kernels {

const BatchNormKernels& batch_norm_x86_avx512() { return kBatchNormKernels<Pairs16>; }

}  // namespace cpuaccel::kernels
