#include "kernels/attention/groups_i8mm.h"
#include "kernels/attention/impl.h"
#include "kernels/float_vectors/exp_sve256.h"

namespace cpuaccel::kernels {

const AttentionKernels& attention_arm64_sve256() {
  return kAttentionKernelsOfGroups<SveExpFloats8, kGroupsI8mm<SveExpFloats8>>;
}

}  // namespace cpuaccel::kernels
