// Large convolutions of 3x3 taps by kernel family winograd, where tuning finds it faster than
// oneDNN.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_winograd(StepRequest& request);

}  // namespace cpuaccel::plan
