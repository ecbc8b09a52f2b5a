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

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using DequantizeFunction = void(const uint8_t* src, float* dst, int64_t count, float scale,
                                int32_t zero_point, uint8_t flipped_bits);

#if defined(__x86_64__)
#define CPUACCEL_DEQUANTIZE_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_DEQUANTIZE_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_DEQUANTIZE_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) DequantizeFunction dequantize_##name;
CPUACCEL_DEQUANTIZE_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<DequantizeFunction>> dequantize_kernels();

// These use the best usable row and all of torch's threads.
void dequantize_u8(const uint8_t* src, float* dst, int64_t count, float scale, int32_t zero_point);
void dequantize_s8(const int8_t* src, float* dst, int64_t count, float scale, int32_t zero_point);

}  // namespace cpuaccel::kernels
