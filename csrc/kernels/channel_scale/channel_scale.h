// Family channel_scale: multiplies each column of a matrix by its own factor, as squeeze-and-excite
// scales channels by gates.
//
//   dst[r * columns + c] = src[r * columns + c] * scale[c]
//
// for r < rows, c < columns. All operands are f32, or all are bf16, whose products are rounded as
// in torch. dst may be src.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// dst[i] = src[i] * scale[i] for i < count.
struct ChannelScaleKernels {
  void (*f32)(const float* src, const float* scale, float* dst, int64_t count);
  void (*bf16)(const uint16_t* src, const uint16_t* scale, uint16_t* dst, int64_t count);
};

using ChannelScaleFunction = const ChannelScaleKernels&();

#define CPUACCEL_KERNEL(name) ChannelScaleFunction channel_scale_##name;
#include "kernels/channel_scale/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ChannelScaleFunction>> channel_scale_kernels();

// Runs the best usable row on all of torch's threads.
void channel_scale(const float* src, const float* scale, float* dst, int64_t rows, int64_t columns);
void channel_scale(const uint16_t* src, const uint16_t* scale, uint16_t* dst, int64_t rows,
                   int64_t columns);

}  // namespace cpuaccel::kernels
