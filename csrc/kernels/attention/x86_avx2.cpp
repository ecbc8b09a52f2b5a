#include "kernels/attention/impl.h"
#include "kernels/floats/exp_avx2.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_x86_avx2() { return kAttentionKernels<ExpFloats8>; }

}  // namespace cpuaccel::kernels
