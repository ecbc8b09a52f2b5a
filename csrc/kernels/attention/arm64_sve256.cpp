#include "kernels/attention/groups_neon.h"
#include "kernels/attention/impl.h"
#include "kernels/float_vectors/exp_sve256.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_arm64_sve256() {
  return kAttentionKernelsOfGroups<SveExpFloats8, kGroupsNeon<SveExpFloats8>>;
}

}  // namespace cpuaccel::kernels
