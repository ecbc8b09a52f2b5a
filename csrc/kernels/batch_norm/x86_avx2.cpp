#include "kernels/batch_norm/impl.h"
#include "kernels/float_vectors/pairs_avx2.h"

namespace cpuaccel::kernels {

const BatchNormKernels& batch_norm_x86_avx2() { return kBatchNormKernels<Pairs8>; }

}  // namespace cpuaccel::kernels
