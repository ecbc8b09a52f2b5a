// Family any_byte_above: whether any byte of an array is above a limit.
//
//   any_i src[i] > limit      i in [0, count)
//
// A kernel checks what it has read every kAnyByteAboveBlock bytes and stops early.
// Bound: a byte read for each element; one load and one maximum a vector.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

inline constexpr int64_t kAnyByteAboveBlock = 4096;

using AnyByteAboveFunction = bool(const uint8_t* src, int64_t count, uint8_t limit);

#define CPUACCEL_KERNEL(name) AnyByteAboveFunction any_byte_above_##name;
#include "kernels/any_byte_above/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<AnyByteAboveFunction>> any_byte_above_kernels();

// Uses the best usable row and all of torch's threads.
CPUACCEL_API bool any_byte_above(const uint8_t* src, int64_t count, uint8_t limit);

}  // namespace cpuaccel::kernels
