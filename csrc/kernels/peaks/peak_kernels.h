// Loops that measure the peak rates of peaks.h, one file per ISA as for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/isa.h"
#include "kernels/peaks/peaks.h"

namespace cpuaccel::kernels {

// Runs a loop on registers `iterations` times and returns the number of operations done.
using OperationsPeak = int64_t(int64_t iterations);

// Reads src, or copies it to dst. `bytes` is a multiple of 512; both are aligned to 64 bytes.
using BytesPeak = void(const std::byte* src, std::byte* dst, int64_t bytes);

#define CPUACCEL_OPERATIONS_KERNEL(rate, name) OperationsPeak peak_##rate##_##name;
#define CPUACCEL_BYTES_KERNEL(rate, name) BytesPeak peak_##rate##_##name;
#include "kernels/peaks/kernels.inc"
#undef CPUACCEL_OPERATIONS_KERNEL
#undef CPUACCEL_BYTES_KERNEL

// Empty asm statements that keep the compiler from optimizing the loops away. OPAQUE: the compiler
// must assume that the value changed, so it recomputes what depends on it. USED: the compiler must
// load or compute the value. `constraint` is "r", or CPUACCEL_VECTOR for a vector register.
#define CPUACCEL_OPAQUE(constraint, value) asm volatile("" : "+" constraint(value))
#define CPUACCEL_USED(constraint, value) asm volatile("" : : constraint(value))
#if defined(__x86_64__)
#define CPUACCEL_VECTOR "v"
#else
#define CPUACCEL_VECTOR "w"
#endif

}  // namespace cpuaccel::kernels
