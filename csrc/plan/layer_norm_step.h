// Layer norm of rows by kernel family layer_norm, fused with the addition before it and the
// quantization after it.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_layer_norm(StepRequest& request);

// Whether the partition with that number is a single addition of two values with the same layout,
// the next partition is a layer norm of the sum, and cpuaccel's kernel supports both in one call.
// Then the next partition's step computes both.
bool is_sum_before_norm(const Building& building, const Region& region, size_t partition);

}  // namespace cpuaccel::plan
