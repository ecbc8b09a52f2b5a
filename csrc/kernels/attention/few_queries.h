// Attention with few queries, as in a decoder's step, where reading keys and values takes as long
// as the products. They are read once, in place, each in one stream over many heads.
#pragma once

#include "kernels/attention/attention.h"

namespace cpuaccel::kernels {

// Decides by the number of queries and the strides of keys and values.
bool are_few_queries(const AttentionCall& call);

void attention_of_few_queries(const AttentionCall& call, const AttentionKernels& kernels);

}  // namespace cpuaccel::kernels
