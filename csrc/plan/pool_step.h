// Max and average pooling of floats by a oneDNN primitive. oneDNN Graph takes some 40 us more for
// each call of it, on one thread.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// Takes a single MaxPool or AvgPool of a dense image.
DeclineReason make_pool(StepRequest& request);

}  // namespace cpuaccel::plan
