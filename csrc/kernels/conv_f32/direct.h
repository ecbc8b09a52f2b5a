// Direct f32 convolution without im2col: each output pixel is a row of a matrix that is read in
// place from the image, and the packed weights are the other matrix.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/conv2d_shape.h"
#include "kernels/conv_f32/staged.h"
#include "kernels/gemm/packed.h"

namespace cpuaccel::kernels {

struct DirectConvCall {
  Conv2dShape shape;
  ImageLayout layout;
  WeightOrder order;
  const float* src;
  std::span<const GemmPacked> weights;  // for each group K x N
  const float* bias;                    // OC, or null
  float* dst;
};

// Uses the row of gemm that the weights are packed for.
void direct_conv(const DirectConvCall& call);

}  // namespace cpuaccel::kernels
