// Family function_f32: activation functions of floats in place, values[i] = f(values[i]), as
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

using FunctionF32Function = void(FloatFunction function, float* values, int64_t count);

#if defined(__x86_64__)
#define CPUACCEL_FUNCTION_F32_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_FUNCTION_F32_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_FUNCTION_F32_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) FunctionF32Function function_f32_##name;
CPUACCEL_FUNCTION_F32_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<FunctionF32Function>> function_f32_kernels();

// Uses the best usable row, on this thread.
void function_f32(FloatFunction function, float* values, int64_t count);

// The same for the FloatFunction that `function` points to. gemm calls it on its results
// (GemmAfter).
void function_f32_of(const void* function, float* values, int64_t count);

}  // namespace cpuaccel::kernels
