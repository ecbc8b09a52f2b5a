// Family bytes_above: whether any byte of an array is above a limit.
//
//   any_i src[i] > limit      i in [0, count)
//
// A kernel checks what it has read every kBytesAboveBlock bytes and stops early.
// Bound: a byte read for each element; one load and one maximum a vector.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

inline constexpr int64_t kBytesAboveBlock = 4096;

using BytesAboveFunction = bool(const uint8_t* src, int64_t count, uint8_t limit);

#if defined(__x86_64__)
#define CPUACCEL_BYTES_ABOVE_KERNELS(row) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#else
#define CPUACCEL_BYTES_ABOVE_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) BytesAboveFunction bytes_above_##name;
CPUACCEL_BYTES_ABOVE_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<BytesAboveFunction>> bytes_above_kernels();

// Uses the best usable row and all of torch's threads.
bool bytes_above(const uint8_t* src, int64_t count, uint8_t limit);

}  // namespace cpuaccel::kernels
