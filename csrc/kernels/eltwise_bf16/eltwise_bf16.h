// Family eltwise_bf16: the activations of base/activations.inc on bf16 tensors in place,
// values[i] = activation(values[i]). They follow oneDNN's layers, whose own post-ops take twice as
// long or more.
//
// Error: half a unit in the last place, plus 2^-12 of the result or 2^-20 * |x|; ties are rounded
// away from zero. NaN gives NaN, +inf gives +inf.
// Bound: 2 bytes read and 2 written per element, if they are not in a cache.
#pragma once

#include <cstdint>
#include <span>

#include "base/activation.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using EltwiseBf16Function = void(Activation activation, uint16_t* values, int64_t count);

#define CPUACCEL_KERNEL(name) EltwiseBf16Function eltwise_bf16_##name;
#include "kernels/eltwise_bf16/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<EltwiseBf16Function>> eltwise_bf16_kernels();

// Uses the best usable row and all of torch's threads.
void eltwise_bf16(Activation activation, uint16_t* values, int64_t count);

}  // namespace cpuaccel::kernels
