// Family clamp: bytes limited from both sides; relu, relu6, hardtanh and clamp of quint8 tensors.
//
//   dst[i] = min(max(src[i], low), high)
//
// In place (src == dst) is allowed, other overlap is not.
// Bound: 1 byte read and 1 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using ClampFunction = void(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low,
                           uint8_t high);

#if defined(__x86_64__)
#define CPUACCEL_CLAMP_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_CLAMP_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_CLAMP_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) ClampFunction clamp_##name;
CPUACCEL_CLAMP_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<ClampFunction>> clamp_kernels();

// Dispatches to the best usable row and to all of torch's threads.
void clamp_u8(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low, uint8_t high);

}  // namespace cpuaccel::kernels
