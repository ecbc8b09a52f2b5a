// Loops of the segment kernels, templated on a vector type V along the columns, described in
// spmm/impl.h. Included by ISA files.
#pragma once

#include <cstdint>

#include "kernels/inline.h"
#include "kernels/segment/segment.h"

namespace cpuaccel::kernels {
namespace {

// kVectors vectors of columns from src and dst on. kMasked: one vector that is not full.
template <typename V, bool kSums, int kVectors, bool kMasked>
struct SegmentRun {
  using Element = typename V::Element;
  using Vector = typename V::Vector;

  const Element* src;
  int64_t stride;
  Element sign;  // -1 for amin, computed as the largest of negated values
  typename V::Mask mask;

  CPUACCEL_INLINE Vector load(const Element* from, int j) const {
    if constexpr (kMasked) {
      return V::load(from, mask);
    } else {
      return V::load(from + j * V::kLanes);
    }
  }
  // Reduces entries [begin, end), from `start`, and divides by `divisor`.
  CPUACCEL_INLINE void over(int64_t begin, int64_t end, Element start, Element divisor,
                            Element* dst) const {
    Vector results[kVectors];
    for (auto& result : results) {
      result = V::set1(start);
    }
    const Vector signs = V::set1(sign);
    for (int64_t e = begin; e < end; ++e) {
      const Element* row = src + e * stride;
      for (int j = 0; j < kVectors; ++j) {
        const Vector x = load(row, j);
        if constexpr (kSums) {
          results[j] = V::add(results[j], x);
        } else {
          const auto taken =
              V::larger_or_nan(V::multiply(signs, x), V::multiply(signs, results[j]));
          results[j] = V::select(taken, x, results[j]);
        }
      }
    }
    for (int j = 0; j < kVectors; ++j) {
      const Vector result = V::divide(results[j], V::set1(divisor));
      if constexpr (kMasked) {
        V::store(dst, result, mask);
      } else {
        V::store(dst + j * V::kLanes, result);
      }
    }
  }

  static void run(const SegmentCall& call, const SegmentWork& work, int64_t k, int64_t columns) {
    constexpr auto kInfinity = static_cast<Element>(__builtin_inff());
    const SegmentRun tile{static_cast<const Element*>(call.src) + k, call.src_stride,
                          static_cast<Element>(call.reduce == Reduce::amin ? -1 : 1),
                          V::mask(columns < V::kLanes ? columns : V::kLanes)};
    if (work.partial != nullptr) {
      const Element neutral = kSums ? 0 : -tile.sign * kInfinity;
      tile.over(work.begin, work.end, neutral, 1, static_cast<Element*>(work.partial) + k);
      return;
    }
    const auto start = static_cast<Element>(call.start), empty = static_cast<Element>(call.empty);
    const bool mean = call.reduce == Reduce::mean;
    for (int64_t n = work.row; n < work.row + work.rows; ++n) {
      const int64_t begin = call.offsets[n], end = call.offsets[n + 1];
      tile.over(begin, end, begin < end ? start : empty,
                mean && begin < end ? static_cast<Element>(end - begin) : 1,
                static_cast<Element*>(call.dst) + n * call.K + k);
    }
  }
};

template <typename V, bool kSums>
void segment_columns(const SegmentCall& call, const SegmentWork& work) {
  constexpr int kMost = V::kMostVectors < 4 ? 1 : 4;
  int64_t k = 0;
  for (; k + kMost * V::kLanes <= call.K; k += kMost * V::kLanes) {
    SegmentRun<V, kSums, kMost, false>::run(call, work, k, kMost * V::kLanes);
  }
  for (; k + V::kLanes <= call.K; k += V::kLanes) {
    SegmentRun<V, kSums, 1, false>::run(call, work, k, V::kLanes);
  }
  if (k < call.K) {
    SegmentRun<V, kSums, 1, true>::run(call, work, k, call.K - k);
  }
}

// Uses the first of these vector types that the columns fill; the last one accepts any number.
template <typename V, typename... Narrower>
void segment_by_width(const SegmentCall& call, const SegmentWork& work) {
  if constexpr (sizeof...(Narrower) > 0) {
    if (call.K < V::kLanes) {
      segment_by_width<Narrower...>(call, work);
      return;
    }
  }
  if (call.reduce == Reduce::sum || call.reduce == Reduce::mean) {
    segment_columns<V, true>(call, work);
  } else {
    segment_columns<V, false>(call, work);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
