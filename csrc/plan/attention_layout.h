// Memory layout of attention's operands: heads side by side within each position, as a linear layer
// writes them, or one head after the other.
#pragma once

#include "base/api.h"
#include "plan/tensor_desc.h"

namespace cpuaccel::plan {

// A dense layout of these sizes. Its dimensions except the last are nested in memory in the same
// order as those of `query`; contiguous if `query` is broadcast. If heads are within positions,
// concatenating the heads of the result copies nothing. Dimensions are [batch x] heads x positions
// x elements.
CPUACCEL_API TensorDesc laid_out_as(const TensorDesc& query, Sizes sizes);

// The strides of a mask that broadcasts to `scores`, 0 for broadcast dimensions. Throws
// std::runtime_error if it does not broadcast.
CPUACCEL_API Sizes broadcast_strides(const TensorDesc& mask, const Sizes& scores);

}  // namespace cpuaccel::plan
