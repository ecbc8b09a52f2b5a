// Views images as a matrix: one row of channels for each pixel.
#pragma once

#include <optional>

#include "plan/tensor_desc.h"

namespace cpuaccel::plan {

// Whether a tensor (N, C, ...) of these sizes has one pixel for each N. For weights: whether they
// have one tap.
bool is_pixel(const Sizes& sizes);

// The distance between neighboring pixels, in elements, of a tensor (N, C, ...) whose channels are
// contiguous and whose pixels are in the order of channels_last. Between pixels there may be
// channels of other tensors. nullopt for any other layout.
std::optional<int64_t> pixel_stride(const TensorDesc& desc);

}  // namespace cpuaccel::plan
