// Family silu_f32: SiLU of floats, dst[i] = src[i] / (1 + exp(-src[i])); dst may be src.
//
// Error: at most 4 * 2^-24 * |dst[i]| + 1e-36. NaN gives NaN, +inf gives +inf, -inf gives NaN.
// Bound: 4 bytes read and 4 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using SiluF32Function = void(const float* src, float* dst, int64_t count);

#define CPUACCEL_KERNEL(name) SiluF32Function silu_f32_##name;
#include "kernels/silu_f32/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<SiluF32Function>> silu_f32_kernels();

// Runs the best usable row on all of torch's threads.
CPUACCEL_API void silu_f32(const float* src, float* dst, int64_t count);

}  // namespace cpuaccel::kernels
