// Channels of an image times gates that a convolution makes of a pixel: squeeze-and-excite.
#pragma once

#include "graph/build.h"
#include "graph/layer.h"

namespace cpuaccel::graph {

// Adds the layer, and then the product with each channel, if `layer` is a convolution of one pixel
// by 1x1 whose last post-op multiplies an image of as many channels with its results; oneDNN reads
// such an operand number by number. False where it is something else: then steps that were added
// are to go again.
bool add_gate(Building& building, const Layer& layer, Id gates);

}  // namespace cpuaccel::graph
