// Which kernel runs a convolution of floats: one list, in order, of what was measured.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/conv2d_shape.h"

namespace cpuaccel::ops {

enum class ConvKernel : uint8_t { torch, gemm, depthwise };

struct ConvChoice {
  const char* name;  // of the case, and why
  bool (*applies)(const kernels::Conv2dShape& shape, kernels::ImageLayout layout);
  ConvKernel kernel;
  // Measured against torch's conv2d, which says nothing of its conv3d: the planes of a volume pass.
  bool images_only = false;
};

// The first that applies; the last always does. `volume`: the shape is of the planes of a conv3d.
const ConvChoice& conv_choice(const kernels::Conv2dShape& shape, kernels::ImageLayout layout,
                              bool volume = false);

// Why no convolution runs on our kernels on this CPU, or "".
const char* why_no_own_convolutions();

// For measurements and tests: leaves out the rows that give a case to torch because it was faster
// there, or was not measured.
void set_own_convolutions_only(bool only);
bool own_convolutions_only();

}  // namespace cpuaccel::ops
