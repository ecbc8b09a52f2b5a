#include "kernels/attention/impl.h"
#include "kernels/float_vectors/exp_avx512.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_x86_avx512() { return kAttentionKernels<ExpFloats16>; }

}  // namespace cpuaccel::kernels
