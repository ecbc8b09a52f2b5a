// Convolutions of floats in slices, one for each thread: see dnnl/slices.h, which has those of
// int8.
#pragma once

#include <vector>

#include "graph/layer_shape.h"

namespace cpuaccel::graph {

// `whole` in `count` slices that lie in its memory: of images, where there are as many; of one
// image pixels of a 1x1 convolution, else rows. None of what is no convolution or has not so many.
std::vector<Shaped> slices_of(const Shaped& whole, int64_t count);

}  // namespace cpuaccel::graph
