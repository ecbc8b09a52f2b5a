// Norms of a layer's rows, by family layer_norm, and with them the sum that they are of.
#pragma once

#include "graph/build.h"
#include "graph/program.h"

namespace cpuaccel::graph {

// Whether `norm` is one that our kernel takes where its source lies as `src` says.
bool is_own_layer_norm(const Building& building, const Operation& norm, const TensorDesc& src);

// Whether `sum`, an operation before `norm`, adds two values that lie alike, of which `norm` is.
bool adds_for(const Building& building, const Operation& sum, const Operation& norm);

// Adds the step of `norm`, which is_own_layer_norm() takes; with `sum`, which adds_for() it, of
// both, and what `sum` gives is written too if `keeps_sum`.
void add_layer_norm(Building& building, const Operation* sum, const Operation& norm,
                    bool keeps_sum);

}  // namespace cpuaccel::graph
