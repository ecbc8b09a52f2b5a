// Family silu_f32: SiLU of floats, dst[i] = src[i] / (1 + exp(-src[i])); dst may be src.
//
// Error: at most 4 * 2^-24 * |dst[i]| + 1e-36. NaN gives NaN, +inf gives +inf, -inf gives NaN.
// Bound: 4 bytes read and 4 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using SiluF32Function = void(const float* src, float* dst, int64_t count);

#if defined(__x86_64__)
#define CPUACCEL_SILU_F32_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_SILU_F32_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_SILU_F32_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) SiluF32Function silu_f32_##name;
CPUACCEL_SILU_F32_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<SiluF32Function>> silu_f32_kernels();

// Runs the best usable row on all of torch's threads.
void silu_f32(const float* src, float* dst, int64_t count);

}  // namespace cpuaccel::kernels
