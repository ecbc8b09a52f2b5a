// Family eltwise_f32: the activations of base/activations.inc on floats in place,
// values[i] = activation(values[i]), as post-ops of matrix products.
//
// Error: at most 2^-20 * |x|. NaN gives NaN, +inf gives +inf.
// Bound: 4 bytes read and 4 written per element, if they are not in a cache.
#pragma once

#include <cstdint>
#include <span>

#include "base/activation.h"
#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using EltwiseF32Function = void(Activation activation, float* values, int64_t count);

#define CPUACCEL_KERNEL(name) EltwiseF32Function eltwise_f32_##name;
#include "kernels/eltwise_f32/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<EltwiseF32Function>> eltwise_f32_kernels();

// Uses the best usable row, on this thread.
void eltwise_f32(Activation activation, float* values, int64_t count);

// The same for the Activation that `activation` points to. gemm calls it on its results
// (GemmAfter).
CPUACCEL_API void eltwise_f32_of(const void* activation, float* values, int64_t count);

}  // namespace cpuaccel::kernels
