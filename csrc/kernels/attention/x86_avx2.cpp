#include "kernels/attention/impl.h"
#include "kernels/float_vectors/exp_avx2.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_x86_avx2() { return kAttentionKernels<ExpFloats8>; }

}  // namespace cpuaccel::kernels
