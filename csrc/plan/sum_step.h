// Additions of float tensors, some of them broadcast, as of embeddings. Kernel family broadcast_add
// takes a fourth of the time that oneDNN Graph takes for them.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h). All operations of the partition have to be additions,
// and nothing outside of it may read its results, except the last one.
DeclineReason make_sum(StepRequest& request);

}  // namespace cpuaccel::plan
