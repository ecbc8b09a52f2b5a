#include "kernels/attention/groups_avx2.h"
#include "kernels/attention/impl.h"
#include "kernels/float_vectors/exp_avx2.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_x86_avx2() {
  return kAttentionKernelsOfGroups<ExpFloats8, kGroupsAvx2>;
}

}  // namespace cpuaccel::kernels
