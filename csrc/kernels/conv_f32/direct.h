// Convolution with each output pixel a row of a matrix that is read where it lies in the image, and
// the weights the other matrix. Nothing is unfolded.
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
  std::span<const GemmPacked> weights;  // of each group K x N
  const float* bias;                    // OC, or null
  float* dst;
};

// On the row that the weights are packed for.
void direct_conv(const DirectConvCall& call);

}  // namespace cpuaccel::kernels
