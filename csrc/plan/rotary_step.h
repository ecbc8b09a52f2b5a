// The step of registered kind rotary: rotary position embedding in halves, by family rotary.
//
//   op rotary in SRC COS SIN out DST
//
// SRC and DST have four dimensions, with heads and positions in the middle, in either order, and
// are f32, bf16 or f16. COS and SIN, of that type or f32, broadcast to SRC, except in the last
// dimension: elements of SRC behind theirs are copied. DST, if it is a result of the region, has
// the layout of that result; otherwise it has the layout of SRC, without gaps.
#pragma once

#include "plan/build.h"

namespace cpuaccel::plan {

void add_rotary(Building& building, const Region& region, const Operation& operation);

}  // namespace cpuaccel::plan
