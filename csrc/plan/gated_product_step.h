// The step of registered kind gated_product: SwiGLU and GeGLU, by family gated_product.
//
//   op gated_product in GATE UP out DST     function=s: a name of base/activations.inc
//
//   DST = function(GATE) * UP
//
// All have the same sizes and one type: f32, bf16 or f16.
#pragma once

#include "plan/build.h"

namespace cpuaccel::plan {

void add_gated_product(Building& building, const Region& region, const Operation& operation);

}  // namespace cpuaccel::plan
