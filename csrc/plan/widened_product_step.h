// Matrix products of 16-bit floats on CPUs without arithmetic of the type, for which oneDNN has no
// primitives, by kernel family gemm in f32 arithmetic.
//
// Weights keep their 16 bits: one row reads them in place, more rows as packed panels, which gemm
// widens as it loads them. What follows a product in its partition, and is no post-op of gemm,
// becomes an elementwise step.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_widened_product(StepRequest& request);

}  // namespace cpuaccel::plan
