// Batch norms of floats behind no convolution that could take them, with a ReLU behind them: each
// channel times a number plus a number.
#pragma once

#include "graph/build.h"

namespace cpuaccel::graph {

// Adds the step of `partition`, if it is such a norm of what lies in memory as pixels do, channels
// side by side; pixels may have others between them. False, and nothing added, if not.
bool add_batch_norm(Building& building, const Partition& partition);

// Whether that is so of `partition` but for how its source lies, which need not be known yet.
bool is_own_batch_norm(const Building& building, const Partition& partition);

}  // namespace cpuaccel::graph
