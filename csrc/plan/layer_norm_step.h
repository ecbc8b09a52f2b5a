// Layer norm of rows by kernel family layer_norm, fused with the addition before it and the
// quantization after it.
#pragma once

#include "plan/build.h"
#include "plan/program.h"

namespace cpuaccel::plan {

// Whether `partition` is a single layer norm that cpuaccel's kernel supports.
bool is_own_layer_norm(const Building& building, const Partition& partition);

// Whether `partition` is a single addition of two values with the same layout, `next` is a layer
// norm of the sum, and cpuaccel's kernel supports both in one call.
bool is_sum_before_norm(const Building& building, const Partition& partition,
                        const Partition& next);

// Whether `operation` quantizes the f32 result of `norm`, which cpuaccel's kernel can do in the
// same call.
bool quantizes(const Building& building, const Operation& operation, const Operation& norm);

// A layer norm, the operations fused with it, and which intermediate results are written as well.
struct NormWithin {
  const Operation* sum = nullptr;
  const Operation* norm = nullptr;
  const Operation* quantize = nullptr;
  bool keeps_sum = false, keeps_norm = true;

  // All of its operations.
  Partition partition() const;
};

// Adds the step of `within`.
void add_layer_norm(Building& building, const NormWithin& within);

}  // namespace cpuaccel::plan
