#include "kernels/attention/floats_neon.h"
#include "kernels/attention/groups_i8mm.h"
#include "kernels/attention/impl.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_arm64_i8mm() {
  return kAttentionKernelsOfGroups<AttentionFloats4, kGroupsI8mm<ExpFloats4>>;
}

}  // namespace cpuaccel::kernels
