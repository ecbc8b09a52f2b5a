// Squeeze-and-excite gates: multiplies each channel of an image by the output of a 1x1 convolution
// of one pixel.
#pragma once

#include "plan/build.h"
#include "plan/layer.h"

namespace cpuaccel::plan {

// Adds two steps, the layer and the product with each channel. It does so if `layer` is a 1x1
// convolution of one pixel, and its last post-op multiplies an image with as many channels by its
// results. oneDNN reads such an operand element by element. `gates` is the result of the layer
// without that post-op. Returns false for anything else; the caller then removes the steps that
// were added.
bool add_gate(Building& building, const Layer& layer, Id gates);

}  // namespace cpuaccel::plan
