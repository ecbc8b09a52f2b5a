// Conversions between bf16 or f16 and f32 in plain C++. Widening is exact, narrowing rounds to
// nearest even, and subnormals are kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/gemm/types.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

CPUACCEL_INLINE float bits_to_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

CPUACCEL_INLINE uint32_t float_to_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

CPUACCEL_INLINE float bf16_to_float(uint16_t half) { return bits_to_float(uint32_t{half} << 16); }

CPUACCEL_INLINE uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_to_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return 0x7fc0;  // a NaN, as torch writes it
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

CPUACCEL_INLINE float f16_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t rest = half & 0x7fff;
  if (rest >= 0x7c00) {  // infinity, or a NaN, which becomes quiet
    const uint32_t quiet = rest > 0x7c00 ? 0x400000 : 0;
    return bits_to_float(sign | 0x7f800000 | (rest & 0x3ff) << 13 | quiet);
  }
  // Multiplying by 2^112 moves the exponent's bias from 15 to 127, and normalizes subnormals.
  const float scaled = bits_to_float(rest << 13) * bits_to_float(0x77800000);
  return bits_to_float(sign | float_to_bits(scaled));
}

CPUACCEL_INLINE uint16_t float_to_f16(float value) {
  const uint32_t bits = float_to_bits(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) {
    return static_cast<uint16_t>(sign | 0x7e00 | ((rest >> 13) & 0x3ff));
  }
  if (rest >= 0x477ff000) {  // 65520 and above round to infinity
    return static_cast<uint16_t>(sign | 0x7c00);
  }
  if (rest < 0x38800000) {
    // Below 2^-14: adding 1/2 leaves multiples of 2^-24 in the lowest bits, rounded to even.
    const float sum = bits_to_float(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (float_to_bits(sum) - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | ((rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13));
}

CPUACCEL_INLINE float element_to_float(const void* data, DataType type, int64_t index) {
  if (type == DataType::f32) {
    return static_cast<const float*>(data)[index];
  }
  const uint16_t half = static_cast<const uint16_t*>(data)[index];
  return type == DataType::bf16 ? bf16_to_float(half) : f16_to_float(half);
}

// `count` elements as floats: where they lie, or converted into the buffer.
inline const float* elements_as_floats(const void* src, DataType type, int64_t count,
                                       float* buffer) {
  if (type == DataType::f32) {
    return static_cast<const float*>(src);
  }
  const auto* halves = static_cast<const uint16_t*>(src);
  std::transform(halves, halves + count, buffer,
                 type == DataType::bf16 ? bf16_to_float : f16_to_float);
  return buffer;
}

CPUACCEL_INLINE void float_to_element(float value, void* data, DataType type, int64_t index) {
  if (type == DataType::f32) {
    static_cast<float*>(data)[index] = value;
    return;
  }
  static_cast<uint16_t*>(data)[index] =
      type == DataType::bf16 ? float_to_bf16(value) : float_to_f16(value);
}

}  // namespace
}  // namespace cpuaccel::kernels
