// Matrix products with few rows (small M), by kernel family gemm. It reads the weights once, in
// place, without a oneDNN primitive and without packed weights.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_few_rows(StepRequest& request);

}  // namespace cpuaccel::plan
