// Family function_bf16: values[i] = f(values[i]) of numbers in bfloat16, in place: what follows a
// layer of oneDNN's, whose own functions take twice as long and more. The functions are those of
// function_f32.
//
// Error: half a unit in the last place, and 2^-12 of the result or 2^-20 * |x|; of two results that
// are as near the one that is farther from zero. A NaN gives a NaN, +inf itself.
// Bound: 2 bytes read and 2 written per element, where they are not in a cache.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/function_f32/function_f32.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using FunctionBf16Function = void(FloatFunction function, uint16_t* values, int64_t count);

#if defined(__x86_64__)
#define CPUACCEL_FUNCTION_BF16_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_FUNCTION_BF16_KERNELS(row) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_FUNCTION_BF16_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) FunctionBf16Function function_bf16_##name;
CPUACCEL_FUNCTION_BF16_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<FunctionBf16Function>> function_bf16_kernels();

// By the best usable row, on all of torch's threads.
void function_bf16(FloatFunction function, uint16_t* values, int64_t count);

}  // namespace cpuaccel::kernels
