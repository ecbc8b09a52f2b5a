// Attention with few queries where the kernel has loops for groups of heads (groups.h): keys and
// values are read once for all queries of the heads that share them.
#pragma once

#include "kernels/attention/attention.h"

namespace cpuaccel::kernels {

bool are_group_queries(const AttentionCall& call, const AttentionKernels& kernels);

void attention_of_group_queries(const AttentionCall& call, const AttentionKernels& kernels);

}  // namespace cpuaccel::kernels
