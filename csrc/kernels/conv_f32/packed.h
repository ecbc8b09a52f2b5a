// conv_f32 on weights that were packed before. Error and bound are the same.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/conv2d_shape.h"
#include "kernels/gemm/packed.h"

namespace cpuaccel::kernels {

struct ConvF32PackedCall {
  Conv2dShape shape;
  ImageLayout layout = ImageLayout::channels_first;
  const float* src = nullptr;
  // For each group an f32 matrix of K = C/groups * KH * KW, in this order, times N = OC/groups; all
  // of one row.
  std::span<const GemmPacked> weights;
  const float* bias = nullptr;  // OC, or null: zeros
  float* dst = nullptr;
};

// On all of torch's threads, by the row that the weights are packed for. The result's bits do not
// depend on threads.
void conv_f32_packed(const ConvF32PackedCall& call);

}  // namespace cpuaccel::kernels
