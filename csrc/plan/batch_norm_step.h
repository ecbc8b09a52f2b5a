// Inference batch norm of f32 or bf16 that is not fused into a convolution, with an optional ReLU:
// each channel is multiplied by a factor, and an offset is added.
#pragma once

#include "plan/build.h"

namespace cpuaccel::plan {

// Adds the step of `partition` if it is such a batch norm and the channels of each pixel of its src
// are contiguous. Gaps between pixels are allowed. Otherwise adds nothing and returns false.
bool add_batch_norm(Building& building, const Partition& partition);

// Whether add_batch_norm() takes `partition`, apart from the layout of its src, which need not be
// known yet.
bool is_own_batch_norm(const Building& building, const Partition& partition);

}  // namespace cpuaccel::plan
