// Chooses the kernel of a float convolution: an ordered list of measured cases.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/conv2d_shape.h"

namespace cpuaccel::ops {

enum class ConvKernel : uint8_t { torch, gemm, depthwise };

struct ConvChoice {
  const char* name;  // the case, which is also the reason
  bool (*applies)(const kernels::Conv2dShape& shape, kernels::ImageLayout layout);
  ConvKernel kernel;
  // The row was measured against torch's conv2d, which says nothing about its conv3d: planes of a
  // volume skip it.
  bool images_only = false;
};

// Multiply-adds of a convolution. In double, because the product of the sizes may overflow int64.
double multiply_adds(const kernels::Conv2dShape& shape);

// The first row that applies; the last row always does. `volume`: the shape is that of the planes
// of a conv3d.
const ConvChoice& conv_choice(const kernels::Conv2dShape& shape, kernels::ImageLayout layout,
                              bool volume = false);

// The kernel of the first row that applies and does not choose torch.
ConvKernel cpuaccel_conv_kernel(const kernels::Conv2dShape& shape, kernels::ImageLayout layout);

// Whether the rows were measured on a core like this one. Elsewhere they suggest a kernel, and
// convolutions learn which one is faster (base/learned_choice.h).
bool convolutions_measured_here();

// The reason why no convolution runs on cpuaccel's kernels on this CPU unless it was learned, or
// "".
const char* convolution_fallback_reason();

// For measurements and tests: skips the rows that choose torch, because it was faster or because
// nothing was measured.
void set_cpuaccel_convolutions_only(bool only);
bool cpuaccel_convolutions_only();

}  // namespace cpuaccel::ops
