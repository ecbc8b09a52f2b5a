// Inference batch norm of f32 or bf16 that is not fused into a convolution, with an optional ReLU:
// each channel is multiplied by a factor, and an offset is added.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h). The channels of each pixel of src have to be
// contiguous; gaps between pixels are allowed.
DeclineReason make_batch_norm(StepRequest& request);

// Whether make_batch_norm() takes `partition`, apart from the layout of its src, which need not be
// known yet.
bool is_batch_norm_step(const Building& building, const Partition& partition);

}  // namespace cpuaccel::plan
