// Large convolutions of 3x3 taps by kernel family winograd. They are off where tuning is off,
// because their results differ from oneDNN's by more than the order of sums. 16-bit sources and
// addends are copied to f32, and results are rounded once.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_winograd(StepRequest& request);

}  // namespace cpuaccel::plan
