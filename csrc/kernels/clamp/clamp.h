// Family clamp: relu, relu6, hardtanh and clamp of quantized uint8 or int8 tensors.
//
//   dst[i] = min(max(src[i], low), high)
//
// Each row handles both types: int8 is uint8 with its sign bit flipped. In place (src == dst) is
// allowed, other overlap is not.
// Bound: 1 byte read and 1 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Limits for bytes after their `flipped_bits` are flipped.
struct ClampLimits {
  uint8_t low = 0, high = 255;
  uint8_t flipped_bits = 0;
};

using ClampFunction = void(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits);

#define CPUACCEL_KERNEL(name) ClampFunction clamp_##name;
#include "kernels/clamp/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ClampFunction>> clamp_kernels();

// These use the best usable row and all of torch's threads.
CPUACCEL_API void clamp_u8(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low,
                           uint8_t high);
CPUACCEL_API void clamp_s8(const int8_t* src, int8_t* dst, int64_t count, int8_t low, int8_t high);

}  // namespace cpuaccel::kernels
