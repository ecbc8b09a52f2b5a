#include "kernels/attention/floats_neon.h"
#include "kernels/attention/groups_neon.h"
#include "kernels/attention/impl.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_arm64_neon() {
  return kAttentionKernelsOfGroups<AttentionFloats4, kGroupsNeon<ExpFloats4>>;
}

}  // namespace cpuaccel::kernels
