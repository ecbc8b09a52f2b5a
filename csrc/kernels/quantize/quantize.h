// Family quantize: quantizes floats to uint8 or int8 with one scale and one zero point, as torch
// does.
//
//   u8: dst[i] = clamp(round_half_to_even(fma(src[i], 1 / scale, before)) + after, 0, 255)
//   s8: dst[i] = clamp(round_half_to_even(fma(src[i], 1 / scale, before)) + after, -128, 127)
//
// in float32 up to the rounding, in int32 after it. One of before and after is the zero point, the
// other is 0: zero_point.h. zero_point is in the range of the result. 2147483520, the largest
// float32 below 2^31, replaces larger values and NaNs; -2^31 replaces smaller ones. The sum wraps
// around, as FBGEMM's does in torch: infinity becomes 0 if after >= 128.
//
// The kernels do both, with offset = 0 for uint8 and 128 for int8:
//
//   dst[i] = clamp(to_int16(round_half_to_even(fma(src[i], 1 / scale, before)) + after) + offset,
//                  0, 255) ^ offset
//
// where to_int16 saturates.
//
// quantize_scaled, uint8 only, quantizes src[i] * factors[i], rounded once before the rest.
//
// Bound: 4 bytes read and 1 written per element; factors of a row stay in the L1 cache.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct QuantizeBy {
  float inverse_scale = 1.0f;
  float before = 0.0f;
  int32_t after = 0;
  uint8_t offset = 0;
};
// Adds the zero point where torch adds it.
CPUACCEL_API QuantizeBy quantize_by(float inverse_scale, int32_t zero_point, uint8_t offset = 0);
inline constexpr float kQuantizeLimit = 2147483520.0f;

using QuantizeFunction = void(const float* src, uint8_t* dst, int64_t count, const QuantizeBy& by);
// by.offset is 0.
using QuantizeScaledFunction = void(const float* src, const float* factors, uint8_t* dst,
                                    int64_t count, const QuantizeBy& by);

#define CPUACCEL_KERNEL(name)       \
  QuantizeFunction quantize_##name; \
  QuantizeScaledFunction quantize_scaled_##name;
#include "kernels/quantize/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<QuantizeFunction>> quantize_kernels();
std::span<const KernelRow<QuantizeScaledFunction>> quantize_scaled_kernels();

// These run the best usable row on all of torch's threads.
CPUACCEL_API void quantize_u8(const float* src, uint8_t* dst, int64_t count, float scale,
                              int32_t zero_point);
CPUACCEL_API void quantize_s8(const float* src, int8_t* dst, int64_t count, float scale,
                              int32_t zero_point);

// dst[image][row][c] = quantize(src[image][row][c] * factors[image][c]): a channels-last image with
// one factor per channel, as in squeeze-and-excite.
struct QuantizeRows {
  int64_t images;
  int64_t rows;  // of one image: height times width
  int64_t columns;
};
CPUACCEL_API void quantize_scaled_u8(const float* src, const float* factors, uint8_t* dst,
                                     const QuantizeRows& shape, float scale, int32_t zero_point);

// dst[image][pixel][c] = quantize(src[image][c][pixel]): converts a channels-first image to
// channels-last u8 in one pass over memory.
struct QuantizePlanes {
  int64_t images;
  int64_t channels;
  int64_t pixels;  // of one image
};
CPUACCEL_API void quantize_planes_u8(const float* src, uint8_t* dst, const QuantizePlanes& shape,
                                     float scale, int32_t zero_point);

}  // namespace cpuaccel::kernels
