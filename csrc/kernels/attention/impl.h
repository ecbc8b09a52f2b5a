// Softmax of one row, for any vector of floats. Included by ISA files.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/floats/exp.h"
#include "kernels/floats/lanes.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Which lanes of a vector there are. Whole vectors have no mask: a masked store of AVX2 takes Zen 3
// as long as all of an exponential.
template <typename V>
struct AllLanes {
  CPUACCEL_INLINE static typename V::Vector load(const float* src) { return V::load(src); }
  CPUACCEL_INLINE static void store(float* dst, typename V::Vector v) { V::store(dst, v); }
  CPUACCEL_INLINE static void store_bf16(uint16_t* dst, typename V::Vector v) {
    V::store_bf16(dst, v);
  }
  CPUACCEL_INLINE static typename V::Vector select(typename V::Vector a, typename V::Vector) {
    return a;
  }
};

template <typename V>
struct SomeLanes {
  typename V::Mask mask;
  CPUACCEL_INLINE typename V::Vector load(const float* src) const { return V::load(src, mask); }
  CPUACCEL_INLINE void store(float* dst, typename V::Vector v) const { V::store(dst, v, mask); }
  CPUACCEL_INLINE void store_bf16(uint16_t* dst, typename V::Vector v) const {
    V::store_bf16(dst, v, mask);
  }
  CPUACCEL_INLINE typename V::Vector select(typename V::Vector a, typename V::Vector b) const {
    return V::select(mask, a, b);
  }
};

// Calls body(first element, its lanes) for each vector of `count` elements.
template <typename V, typename Body>
CPUACCEL_INLINE void for_each_vector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    body(i, AllLanes<V>{});
  }
  if (i < count) {
    body(i, SomeLanes<V>{V::mask(count - i)});
  }
}

template <typename V>
CPUACCEL_INLINE float masked_max(const SoftmaxRow& row) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  auto max = V::set1(kLowest);
  for_each_vector<V>(row.count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
    auto x = lanes.load(row.scores + i);
    if (row.mask != nullptr) {
      x = V::add(x, lanes.load(row.mask + i));
      lanes.store(row.scores + i, x);
    }
    // A NaN in x leaves the maximum as it is, and comes out of the exponential.
    max = V::max(lanes.select(x, V::set1(kLowest)), max);
  });
  const float largest = largest_lane<V>(max);
  return largest > row.max ? largest : row.max;
}

// Calls write(first element, its lanes, its weights) for each vector, with weight(max - score).
template <typename V, typename Weight, typename Write>
CPUACCEL_INLINE SoftmaxResult softmax_to(const SoftmaxRow& row, const Weight& weight,
                                         const Write& write) {
  const float max = masked_max<V>(row);
  // Where all is masked, minus infinity less itself would be NaN.
  const auto from = V::set1(max == -std::numeric_limits<float>::infinity() ? 0.0f : max);
  auto sum = V::set1(0.0f);
  for_each_vector<V>(row.count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
    const auto weights = weight(V::subtract(from, lanes.load(row.scores + i)));
    write(i, lanes, weights);
    sum = V::add(sum, lanes.select(weights, V::set1(0.0f)));
  });
  return {max, sum_of_lanes<V>(sum)};
}

template <typename V>
SoftmaxResult softmax_row(const SoftmaxRow& row) {
  return softmax_to<V>(row, weight_below<V>,
                       [&](int64_t i, auto lanes, auto weights) __attribute__((always_inline)) {
                         lanes.store(row.scores + i, weights);
                       });
}

template <typename V>
SoftmaxResult softmax_row_bf16(const SoftmaxRow& row, uint16_t* dst) {
  return softmax_to<V>(row, weight_below_bf16<V>,
                       [&](int64_t i, auto lanes, auto weights)
                           __attribute__((always_inline)) { lanes.store_bf16(dst + i, weights); });
}

template <typename V>
void scale_row(float* row, int64_t count, float factor) {
  for_each_vector<V>(count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
    lanes.store(row + i, V::multiply(lanes.load(row + i), V::set1(factor)));
  });
}

template <typename V>
constexpr AttentionKernels attention_kernels_of() {
  if constexpr (requires(uint16_t* to, typename V::Vector v) { V::store_bf16(to, v); }) {
    return {softmax_row<V>, softmax_row_bf16<V>, scale_row<V>};
  } else {
    return {softmax_row<V>, nullptr, scale_row<V>};
  }
}

template <typename V>
inline constexpr AttentionKernels kAttentionKernels = attention_kernels_of<V>();

}  // namespace
}  // namespace cpuaccel::kernels
