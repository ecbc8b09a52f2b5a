// f32 convolution with packed weights. Error and bound are those of conv_f32.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/conv2d_shape.h"
#include "kernels/gemm/packed.h"

namespace cpuaccel::kernels {

struct ConvF32PackedCall {
  Conv2dShape shape;
  ImageLayout layout = ImageLayout::channels_first;
  const float* src = nullptr;
  // For each group an f32 matrix of K = C/groups * KH * KW, in this order, times N = OC/groups. All
  // are packed for the same row.
  std::span<const GemmPacked> weights;
  const float* bias = nullptr;  // OC, or null: zeros
  float* dst = nullptr;
};

// Uses the row that the weights are packed for, and all of torch's threads. The result's bits do
// not depend on the number of threads.
CPUACCEL_API void conv_f32_packed(const ConvF32PackedCall& call);

}  // namespace cpuaccel::kernels
