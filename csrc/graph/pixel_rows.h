// Tensors as rows of channels, one for each pixel.
#pragma once

#include <optional>

#include "graph/tensor_desc.h"

namespace cpuaccel::graph {

// Whether (N, C, ...) of these sizes is one pixel for each N, and weights of them have one tap.
bool is_pixel(const Sizes& sizes);

// How many numbers pixels of a tensor of (N, C, ...) are apart, whose channels lie side by side and
// whose pixels follow each other as in channels_last, perhaps with others' channels between them.
// Nothing of any other.
std::optional<int64_t> pixel_stride(const TensorDesc& desc);

}  // namespace cpuaccel::graph
