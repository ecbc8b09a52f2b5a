// Splits float convolutions into slices, one for each thread. dnnl/slices.h does that for int8.
#pragma once

#include <vector>

#include "plan/layer_shape.h"

namespace cpuaccel::plan {

// Splits `whole` into `count` slices that are views of its memory. Several images are split by
// image, one image by pixels for a 1x1 convolution, else by rows. Empty unless it is a convolution
// with at least `count` of those.
std::vector<Shaped> slices_of(const Shaped& whole, int64_t count);

}  // namespace cpuaccel::plan
