// Squeeze-and-excite gates: multiplies each channel of an image by the output of a 1x1 convolution
// of one pixel.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h). It adds two, the layer and the product with each
// channel, if the partition is a 1x1 convolution of one pixel, and its last post-op multiplies an
// image with as many channels by its results. oneDNN reads such an operand element by element.
DeclineReason make_gate(StepRequest& request);

}  // namespace cpuaccel::plan
