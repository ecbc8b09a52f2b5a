// Family channel_affine: batch norm of quantized u8 tensors, channels last: a factor and an offset
// for each channel.
//
//   dst[p,c] = clamp(round_half_to_even(factor[c] * (src[p,c] - src_zero_point) + offset[c])
//                    + dst_zero_point, lowest, 255)
//
// src and dst are P x C and dense; they may not overlap. Zero points and lowest are in [0, 255].
// The product and the sum are one float operation (fma), so that every row gives the same bytes.
// Their value must fit int32, which channel_affine_fits() checks.
// Bound: 1 byte read and 1 written per element.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct ChannelAffine {
  int64_t C = 0;
  const float* factor = nullptr;  // [C]
  const float* offset = nullptr;  // [C], in units of dst's scale
  int32_t src_zero_point = 0;
  int32_t dst_zero_point = 0;
  int32_t lowest = 0;  // dst_zero_point for a fused relu
};

using ChannelAffineFunction = void(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst,
                                   int64_t P);

#define CPUACCEL_KERNEL(name) ChannelAffineFunction channel_affine_##name;
#include "kernels/channel_affine/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ChannelAffineFunction>> channel_affine_kernels();

// Whether a channel's values fit int32 for all src bytes.
inline bool channel_affine_fits(float factor, float offset) {
  return std::fabs(factor) * 255.0f + std::fabs(offset) < 2.0e9f;
}

// Uses the best usable row and all of torch's threads.
CPUACCEL_API void channel_affine_u8(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst,
                                    int64_t P);

}  // namespace cpuaccel::kernels
