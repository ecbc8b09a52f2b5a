// Family dequantize: per-tensor quantized uint8 or int8 to f32, as in torch.
//
//   dst[i] = scale * float(src[i] - zero_point)
//
// zero_point is in the range of src's type. Each row handles both types: int8 is uint8 with its
// sign bit flipped and the zero point 128 higher.
// Bound: 1 byte read and 4 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using DequantizeFunction = void(const uint8_t* src, float* dst, int64_t count, float scale,
                                int32_t zero_point, uint8_t flipped_bits);

#define CPUACCEL_KERNEL(name) DequantizeFunction dequantize_##name;
#include "kernels/dequantize/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<DequantizeFunction>> dequantize_kernels();

// These use the best usable row and all of torch's threads.
CPUACCEL_API void dequantize_u8(const uint8_t* src, float* dst, int64_t count, float scale,
                                int32_t zero_point);
CPUACCEL_API void dequantize_s8(const int8_t* src, float* dst, int64_t count, float scale,
                                int32_t zero_point);

}  // namespace cpuaccel::kernels
