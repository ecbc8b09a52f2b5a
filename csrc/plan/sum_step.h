// Additions of float tensors, some of them broadcast, as of embeddings. Kernel family add_repeated
// takes a fourth of the time that oneDNN Graph takes for them.
#pragma once

#include "plan/build.h"

namespace cpuaccel::plan {

// Whether all operations are additions.
bool is_sums(const Partition& partition);

// Adds the step of such a partition, and returns whether there is one. Nothing outside of the
// partition may read its results, except the last one.
bool add_sum(Building& building, const Partition& partition);

}  // namespace cpuaccel::plan
