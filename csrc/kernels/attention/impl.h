// Softmax of one row of attention scores and their soft cap, for any vector class of floats.
// Included by ISA sources.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/float_vectors/exp.h"
#include "kernels/float_vectors/lanes.h"
#include "kernels/float_vectors/tanh.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Loads and stores of whole vectors (AllLanes) or of the first lanes (SomeLanes). Whole vectors use
// no mask: on Zen 3 an AVX2 masked store takes as long as a whole exponential.
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

// Calls body(first element, AllLanes or SomeLanes) for each vector of `count` elements.
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

// The largest value(first element, lanes). Vectors alternate among four maxima, because each max
// waits for the one before it. A NaN leaves the maximum unchanged; the exponential propagates it
// later.
template <typename V, typename Value>
CPUACCEL_INLINE float largest(int64_t count, const Value& value) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr int64_t kTurns = 4;
  typename V::Vector max[kTurns] = {V::set1(kLowest), V::set1(kLowest), V::set1(kLowest),
                                    V::set1(kLowest)};
  int64_t i = 0;
  for (; i + kTurns * V::kLanes <= count; i += kTurns * V::kLanes) {
#pragma GCC unroll 4
    for (int64_t turn = 0; turn < kTurns; ++turn) {
      max[turn] = V::max(value(i + turn * V::kLanes, AllLanes<V>{}), max[turn]);
    }
  }
  for_each_vector<V>(count - i, [&](int64_t j, auto lanes) __attribute__((always_inline)) {
    max[0] = V::max(lanes.select(value(i + j, lanes), V::set1(kLowest)), max[0]);
  });
  return largest_lane<V>(V::max(V::max(max[0], max[1]), V::max(max[2], max[3])));
}

// The largest scale * score + mask. If there is a mask, row.scores holds these sums afterwards.
template <typename V>
CPUACCEL_INLINE float largest_score(const SoftmaxRow& row) {
  const auto scale = V::set1(row.scale);
  if (row.mask != nullptr) {
    return largest<V>(row.count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
      const auto x = V::fma(scale, lanes.load(row.scores + i), lanes.load(row.mask + i));
      lanes.store(row.scores + i, x);
      return x;
    });
  }
  if (row.scale > 0.0f) {
    return row.scale *
           largest<V>(row.count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
             return lanes.load(row.scores + i);
           });
  }
  return largest<V>(row.count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
    return V::multiply(scale, lanes.load(row.scores + i));
  });
}

// Calls write(first element, lanes, weights) for each vector, with weights = weight(max - score).
template <typename V, typename Weight, typename Write>
CPUACCEL_INLINE SoftmaxResult softmax_to(const SoftmaxRow& row, const Weight& weight,
                                         const Write& write) {
  const float largest = largest_score<V>(row);
  const float max = largest > row.max ? largest : row.max;
  // If all keys are masked, minus infinity minus itself would be NaN.
  const auto from = V::set1(max == -std::numeric_limits<float>::infinity() ? 0.0f : max);
  const auto scale = V::set1(row.mask != nullptr ? -1.0f : -row.scale);
  auto sum = V::set1(0.0f);
  for_each_vector<V>(row.count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
    const auto weights = weight(V::fma(scale, lanes.load(row.scores + i), from));
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
void cap_row(float* row, int64_t count, float scale, float cap) {
  const auto inside = V::set1(scale / cap), outside = V::set1(cap);
  for_each_vector<V>(count, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
    const auto x = V::multiply(lanes.load(row + i), inside);
    lanes.store(row + i, V::multiply(tanh_by_fraction<V>(x), outside));
  });
}

// The compiler makes vectors of these two loops.
inline void multiply_row(float* __restrict row, const float* __restrict factors, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    row[i] *= factors[i];
  }
}

inline void widen_row(const int8_t* __restrict src, int64_t count, float* __restrict dst) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = static_cast<float>(src[i]);
  }
}

// Whole vectors only: what one writes behind its row, the next row overwrites.
template <typename V>
void outer_sum_rows(const float* rows, int64_t count, const float* columns, int64_t width,
                    float* dst) {
  for (int64_t i = 0; i < count; ++i, dst += width) {
    const auto row = V::set1(rows[i]);
    for (int64_t j = 0; j < width; j += V::kLanes) {
      V::store(dst + j, V::add(row, V::load(columns + j)));
    }
  }
}

template <typename V>
constexpr AttentionKernels attention_kernels_of(const AttentionGroups* groups) {
  if constexpr (requires(uint16_t* to, typename V::Vector v) { V::store_bf16(to, v); }) {
    return {softmax_row<V>, softmax_row_bf16<V>, scale_row<V>,      cap_row<V>,
            multiply_row,   widen_row,           outer_sum_rows<V>, groups};
  } else {
    return {softmax_row<V>, nullptr,   scale_row<V>,      cap_row<V>,
            multiply_row,   widen_row, outer_sum_rows<V>, groups};
  }
}

template <typename V>
inline constexpr AttentionKernels kAttentionKernels = attention_kernels_of<V>(nullptr);

template <typename V, const AttentionGroups& kGroups>
inline constexpr AttentionKernels kAttentionKernelsOfGroups = attention_kernels_of<V>(&kGroups);

}  // namespace
}  // namespace cpuaccel::kernels
