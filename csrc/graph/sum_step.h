// Sums of tensors of floats, some of which repeat, as of embeddings: by family add_repeated, in a
// fourth of the time that oneDNN Graph takes for them.
#pragma once

#include "graph/build.h"

namespace cpuaccel::graph {

// Whether there is nothing but sums.
bool is_sums(const Partition& partition);

// Adds the step of such a partition, whose results but the last nobody reads beside it, and returns
// whether there is one.
bool add_sum(Building& building, const Partition& partition);

}  // namespace cpuaccel::graph
