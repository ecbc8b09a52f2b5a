// Layer norm and RMS norm of rows by kernel families layer_norm and rms_norm, fused with the
// addition before and the quantization after.
//
//   op rms_norm in SRC [WEIGHTS] out DST     epsilon=f; weight_offset=f: added to WEIGHTS
//
// SRC and DST are f32, bf16 or f16, with rows in the last dimension. WEIGHTS are f32.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h). It copies sources whose rows have gaps.
DeclineReason make_norm(StepRequest& request);

// Throws: what make_norm declines has wrong types or weights.
void add_rms_norm(Building& building, const Region& region, const Operation& operation);

// Whether the partition with that number is a single addition of two values with the same layout,
// the next partition is a norm of the sum, and cpuaccel's kernel supports both in one call.
// Then the next partition's step computes both.
bool is_sum_before_norm(const Building& building, const Region& region, size_t partition);

}  // namespace cpuaccel::plan
