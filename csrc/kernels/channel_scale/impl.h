// Elementwise products of f32 and bf16, templated on a vector type with pairs of bf16. Included by
// ISA files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/channel_scale/channel_scale.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
void scale_f32(const float* src, const float* scale, float* dst, int64_t count) {
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    V::store(dst + i, V::multiply(V::load(src + i), V::load(scale + i)));
  }
  if (i < count) {
    const auto mask = V::mask(count - i);
    V::store(dst + i, V::multiply(V::load(src + i, mask), V::load(scale + i, mask)), mask);
  }
}

template <typename V>
CPUACCEL_INLINE void scale_pairs(const uint16_t* src, const uint16_t* scale, uint16_t* dst) {
  const auto values = V::load_pairs(src), factors = V::load_pairs(scale);
  V::store_pairs_to_even(dst, V::multiply(V::even(values), V::even(factors)),
                         V::multiply(V::odd(values), V::odd(factors)));
}

template <typename V>
void scale_bf16(const uint16_t* src, const uint16_t* scale, uint16_t* dst, int64_t count) {
  constexpr int64_t kStep = 2 * V::kLanes;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    scale_pairs<V>(src + i, scale + i, dst + i);
  }
  if (i < count) {
    uint16_t values[kStep] = {}, factors[kStep] = {};
    std::copy(src + i, src + count, values);
    std::copy(scale + i, scale + count, factors);
    scale_pairs<V>(values, factors, values);
    std::copy(values, values + (count - i), dst + i);
  }
}

template <typename V>
inline constexpr ChannelScaleKernels kChannelScaleKernels{scale_f32<V>, scale_bf16<V>};

}  // namespace
}  // namespace cpuaccel::kernels
