// Norms of a layer's rows, by family layer_norm, and with them the sum that they are of and what
// quantizes them.
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

// Whether `operation` quantizes the result of `norm` alone, which our kernel does with it.
bool quantizes(const Building& building, const Operation& operation, const Operation& norm);

// A norm, what it takes over, and which results on the way are written as well.
struct NormWithin {
  const Operation* sum = nullptr;
  const Operation* norm = nullptr;
  const Operation* quantize = nullptr;
  bool keeps_sum = false, keeps_norm = true;

  // All of it.
  Partition partition() const;
};

// Adds the step of it.
void add_layer_norm(Building& building, const NormWithin& within);

}  // namespace cpuaccel::graph
