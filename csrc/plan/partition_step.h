// A plan step that runs a partition by oneDNN Graph.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h), which never declines. Throws dnnl::error or
// std::runtime_error if oneDNN Graph does not support the partition.
DeclineReason make_partition(StepRequest& request);

}  // namespace cpuaccel::plan
