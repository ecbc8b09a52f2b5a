// batch_norm for any vector class of floats that also has pairs of bf16. Included by ISA
// sources.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// max returns its second operand if that is NaN.
template <typename V>
CPUACCEL_INLINE typename V::Vector affine(typename V::Vector src, typename V::Vector scale,
                                          typename V::Vector shift, typename V::Vector lowest) {
  return V::max(lowest, V::fma(src, scale, shift));
}

template <typename V>
void affine_f32(const BatchNormNumbers& numbers, const BatchNormRows<float>& rows) {
  const auto lowest = V::set1(numbers.lowest);
  const int64_t whole = numbers.columns / V::kLanes * V::kLanes;
  const auto rest = V::mask(numbers.columns - whole);
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* const src = rows.src + r * rows.src_stride;
    float* const dst = rows.dst + r * rows.dst_stride;
    for (int64_t c = 0; c < whole; c += V::kLanes) {
      V::store(dst + c, affine<V>(V::load(src + c), V::load(numbers.scale + c),
                                  V::load(numbers.shift + c), lowest));
    }
    if (whole < numbers.columns) {
      V::store(dst + whole,
               affine<V>(V::load(src + whole, rest), V::load(numbers.scale + whole, rest),
                         V::load(numbers.shift + whole, rest), lowest),
               rest);
    }
  }
}

template <typename V>
CPUACCEL_INLINE void affine_pairs(const uint16_t* src, const float* scale, const float* shift,
                                  typename V::Vector lowest, uint16_t* dst) {
  const auto values = V::load_pairs(src);
  V::store_pairs_to_even(
      dst, affine<V>(V::even(values), V::load(scale), V::load(shift), lowest),
      affine<V>(V::odd(values), V::load(scale + V::kLanes), V::load(shift + V::kLanes), lowest));
}

template <typename V>
void affine_bf16(const BatchNormNumbers& numbers, const BatchNormRows<uint16_t>& rows) {
  constexpr int64_t kStep = 2 * V::kLanes;
  const auto lowest = V::set1(numbers.lowest);
  const int64_t whole = numbers.columns / kStep * kStep;
  for (int64_t r = 0; r < rows.rows; ++r) {
    const uint16_t* const src = rows.src + r * rows.src_stride;
    uint16_t* const dst = rows.dst + r * rows.dst_stride;
    for (int64_t c = 0; c < whole; c += kStep) {
      affine_pairs<V>(src + c, numbers.scale + c, numbers.shift + c, lowest, dst + c);
    }
    if (whole < numbers.columns) {
      uint16_t values[kStep] = {};
      std::copy(src + whole, src + numbers.columns, values);
      affine_pairs<V>(values, numbers.scale + whole, numbers.shift + whole, lowest, values);
      std::copy(values, values + (numbers.columns - whole), dst + whole);
    }
  }
}

template <typename V>
inline constexpr BatchNormKernels kBatchNormKernels{V::kLanes, affine_f32<V>, affine_bf16<V>};

}  // namespace
}  // namespace cpuaccel::kernels
