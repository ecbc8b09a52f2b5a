// Large convolutions of 3x3 taps by kernel family winograd, where tuning finds it faster than
// oneDNN. 16-bit sources and addends are copied to f32, and results are rounded once.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_winograd(StepRequest& request);

}  // namespace cpuaccel::plan
