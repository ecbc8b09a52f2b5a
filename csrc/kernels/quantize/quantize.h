// Family quantize: floats to uint8 or int8 with one scale and one zero point, as torch does it.
//
//   u8: dst[i] = clamp(round_half_to_even(fma(src[i], 1 / scale, zero_point)), 0, 255)
//   s8: dst[i] = clamp(round_half_to_even(fma(src[i], 1 / scale, zero_point)), -128, 127)
//
// in float32: the zero point is added before rounding, with no rounding in between. zero_point is
// in the range of the result. A NaN counts as more than every number.
//
// The rows do both: with offset = 0 for uint8 and 128 for int8,
//
//   dst[i] = clamp(round_half_to_even(fma(src[i], 1 / scale, zero_point)) + offset, 0, 255) ^
//   offset
//
// Bound: 4 bytes read and 1 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

using QuantizeFunction = void(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                              float zero_point, uint8_t offset);

#if defined(__x86_64__)
#define CPUACCEL_QUANTIZE_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#else
#define CPUACCEL_QUANTIZE_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) QuantizeFunction quantize_##name;
CPUACCEL_QUANTIZE_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<QuantizeFunction>> quantize_kernels();

// These dispatch to the best usable row and to all of torch's threads.
void quantize_u8(const float* src, uint8_t* dst, int64_t count, float scale, int32_t zero_point);
void quantize_s8(const float* src, int8_t* dst, int64_t count, float scale, int32_t zero_point);

}  // namespace cpuaccel::kernels
