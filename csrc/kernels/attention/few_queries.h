// Attention of few queries, as of a decoder's one, which takes as long as reading keys and values
// does: they are read once, where they lie, and each in one stream over many heads.
#pragma once

#include "kernels/attention/attention.h"

namespace cpuaccel::kernels {

// By how many queries there are and how keys and values lie.
bool are_few_queries(const AttentionCall& call);

void attention_of_few_queries(const AttentionCall& call, const AttentionKernels& kernels);

}  // namespace cpuaccel::kernels
