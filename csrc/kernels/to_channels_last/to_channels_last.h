// Family to_channels_last: converts an image from planes (channels first) to pixels (channels
// last).
//
//   dst[i * C + c] = src[c * plane + i]
//
// for i < pixels and c < C, where C is 2 to 4 and elements have `width` bytes, 2 or 4. dst does not
// overlap src.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct ToChannelsLastCall {
  const uint8_t* src;
  uint8_t* dst;
  int64_t C, plane, pixels;  // in elements
  int64_t width;
};

inline constexpr int64_t kToChannelsLastMost = 4;  // channels

using ToChannelsLastFunction = void(const ToChannelsLastCall& call);

#define CPUACCEL_KERNEL(name) ToChannelsLastFunction to_channels_last_##name;
#include "kernels/to_channels_last/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ToChannelsLastFunction>> to_channels_last_kernels();

// Runs the best usable row on all of torch's threads.
void to_channels_last(const ToChannelsLastCall& call);

}  // namespace cpuaccel::kernels
