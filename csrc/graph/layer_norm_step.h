// Norms of a layer's rows, by family layer_norm, and with them the sum that they are of.
#pragma once

#include "graph/build.h"
#include "graph/program.h"

namespace cpuaccel::graph {

// Whether `partition` is a norm alone, which our kernel takes.
bool is_own_layer_norm(const Building& building, const Partition& partition);

// Whether `partition` is a sum alone of two values that lie alike, and `next` a norm of it, both of
// which our kernel takes together.
bool is_sum_before_norm(const Building& building, const Partition& partition,
                        const Partition& next);

// Adds the step of such a norm; with `sum`, of both, and what `sum` gives is written too if
// `keeps_sum`.
void add_layer_norm(Building& building, const Operation* sum, const Operation& norm,
                    bool keeps_sum);

}  // namespace cpuaccel::graph
