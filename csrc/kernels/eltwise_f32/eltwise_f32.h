// Family eltwise_f32: activation functions of floats in place, values[i] = f(values[i]), as
// post-ops of matrix products.
//
//   relu       max(x, 0)
//   hardswish  x * min(max(x + 3, 0), 6) / 6
//   silu       x / (1 + exp(-x))
//   gelu       x * Phi(x), Phi of the normal distribution
//   gelu_tanh  x / (1 + exp(-2 * sqrt(2 / pi) * (x + 0.044715 * x^3)))
//
// Error: at most 2^-20 * |x|. NaN gives NaN, +inf gives +inf.
// Bound: 4 bytes read and 4 written per element, if they are not in a cache.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

enum class FloatFunction : uint8_t { relu, hardswish, silu, gelu, gelu_tanh };

using EltwiseF32Function = void(FloatFunction function, float* values, int64_t count);

#define CPUACCEL_KERNEL(name) EltwiseF32Function eltwise_f32_##name;
#include "kernels/eltwise_f32/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<EltwiseF32Function>> eltwise_f32_kernels();

// Uses the best usable row, on this thread.
void eltwise_f32(FloatFunction function, float* values, int64_t count);

// The same for the FloatFunction that `function` points to. gemm calls it on its results
// (GemmAfter).
void eltwise_f32_of(const void* function, float* values, int64_t count);

}  // namespace cpuaccel::kernels
