// Segment reductions over one to three columns, in scalar code: vectors would not be full, and a
// segment of a few entries costs as much as the loop itself. Long segments use four chains.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/inline.h"
#include "kernels/segment/segment.h"

namespace cpuaccel::kernels {

inline constexpr int64_t kFewSegmentColumns = 3;

enum class SegmentLoop : uint8_t { sum, largest, smallest };

template <typename Number, int kColumns, SegmentLoop kLoop>
struct FewSegmentColumns {
  static constexpr int64_t kLongSegment = 32;  // entries from which on joining chains pays
  static constexpr int kChains = 4;

  // Running result of a column. Comparisons with NaN are false, so NaN is remembered separately.
  struct Result {
    Number value;
    bool has_nan = false;

    CPUACCEL_INLINE void take(Number x) {
      if constexpr (kLoop == SegmentLoop::sum) {
        value += x;
      } else {
        value = (kLoop == SegmentLoop::largest ? x > value : x < value) ? x : value;
        has_nan |= x != x;  // NOLINT(misc-redundant-expression)
      }
    }
    CPUACCEL_INLINE void join(const Result& other) {
      take(other.value);
      has_nan |= other.has_nan;
    }
    CPUACCEL_INLINE Number number() const {
      return has_nan ? std::numeric_limits<Number>::quiet_NaN() : value;
    }
  };

  static constexpr Number kNeutral = kLoop == SegmentLoop::sum ? Number{0}
                                     : kLoop == SegmentLoop::largest
                                         ? -std::numeric_limits<Number>::infinity()
                                         : std::numeric_limits<Number>::infinity();

  const Number* src;
  int64_t stride;

  CPUACCEL_INLINE void take(int64_t e, Result* results) const {
    const Number* row = src + e * stride;
#pragma GCC unroll 3
    for (int k = 0; k < kColumns; ++k) {
      results[k].take(row[k]);
    }
  }
  // Reduces entries [begin, end), from `start`, and divides by `divisor`.
  CPUACCEL_INLINE void over(int64_t begin, int64_t end, Number start, Number divisor,
                            Number* dst) const {
    Result results[kColumns];
    for (auto& result : results) {
      result.value = start;
    }
    if (end - begin > kLongSegment) [[unlikely]] {
      begin = by_chains(begin, end, results);
    }
    for (int64_t e = begin; e < end; ++e) {
      take(e, results);
    }
    for (int k = 0; k < kColumns; ++k) {
      dst[k] = results[k].number() / divisor;
    }
  }
  // Returns the first remaining entry.
  int64_t by_chains(int64_t begin, int64_t end, Result* results) const {
    Result chains[kChains][kColumns];
    for (auto& chain : chains) {
      for (auto& result : chain) {
        result.value = kNeutral;
      }
    }
    for (; begin + kChains <= end; begin += kChains) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) {
        take(begin + chain, chains[chain]);
      }
    }
    for (const auto& chain : chains) {
      for (int k = 0; k < kColumns; ++k) {
        results[k].join(chain[k]);
      }
    }
    return begin;
  }

  static void run(const SegmentCall& call, const SegmentWork& work) {
    const FewSegmentColumns columns{static_cast<const Number*>(call.src), call.src_stride};
    if (work.partial != nullptr) {
      columns.over(work.begin, work.end, kNeutral, 1, static_cast<Number*>(work.partial));
      return;
    }
    const auto start = static_cast<Number>(call.start), empty = static_cast<Number>(call.empty);
    const bool mean = call.reduce == Reduce::mean;
    auto* dst = static_cast<Number*>(call.dst) + work.row * kColumns;
    int64_t begin = call.offsets[work.row];
    for (int64_t n = work.row; n < work.row + work.rows; ++n, dst += kColumns) {
      const int64_t end = call.offsets[n + 1];
      columns.over(begin, end, begin < end ? start : empty,
                   mean && begin < end ? static_cast<Number>(end - begin) : 1, dst);
      begin = end;
    }
  }
};

template <typename Number, int kColumns>
void few_segment_columns(const SegmentCall& call, const SegmentWork& work) {
  switch (call.reduce) {
    case Reduce::amax:
      return FewSegmentColumns<Number, kColumns, SegmentLoop::largest>::run(call, work);
    case Reduce::amin:
      return FewSegmentColumns<Number, kColumns, SegmentLoop::smallest>::run(call, work);
    default:
      return FewSegmentColumns<Number, kColumns, SegmentLoop::sum>::run(call, work);
  }
}

template <typename Number>
void few_segment_columns(const SegmentCall& call, const SegmentWork& work) {
  switch (call.K) {
    case 1:
      return few_segment_columns<Number, 1>(call, work);
    case 2:
      return few_segment_columns<Number, 2>(call, work);
    default:
      return few_segment_columns<Number, 3>(call, work);
  }
}

}  // namespace cpuaccel::kernels
