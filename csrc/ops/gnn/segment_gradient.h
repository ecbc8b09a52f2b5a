// Gradient of segment_reduce in plain loops over segments, for up to three columns and for small
// tensors.
//
// In those cases it takes a half to a third of the time of the kernels that gather rows and compare
// vectors: these need an index for each row, and temporary tensors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/inline.h"
#include "kernels/segment/segment.h"

namespace cpuaccel::ops {

// Up to this many elements of the gradient, these loops are faster than the kernels.
inline constexpr int64_t kMostGradientNumbers = 1 << 13;

// grad, output and result are dense, with K columns; rows of data are `stride` elements apart. Row
// e is in segment n if it is in [offsets[n], offsets[n + 1]).
template <typename Number>
struct SegmentGradient {
  static constexpr int64_t kBlock = 16;  // columns whose ties are counted together

  kernels::Reduce reduce;
  std::span<const int64_t> offsets;
  int64_t K, stride;
  const Number *grad, *output, *data;
  Number* result;

  void run() const {
    constexpr int64_t kGrainNumbers = 1 << 15;
    const auto count = static_cast<int64_t>(offsets.size()) - 1;
    const int64_t numbers = (offsets.back() - offsets.front()) * K / std::max<int64_t>(count, 1);
    parallel_for(0, count, kGrainNumbers / (numbers + 1) + 1, [&](int64_t first, int64_t last) {
      switch (K) {
        case 1:
          return segments<1>(first, last);
        case 2:
          return segments<2>(first, last);
        case 3:
          return segments<3>(first, last);
        default:
          return segments<0>(first, last);
      }
    });
  }

 private:
  // kColumns: K, or 0 for any K.
  template <int64_t kColumns>
  void segments(int64_t first, int64_t last) const {
    using kernels::Reduce;
    const bool sums = reduce == Reduce::sum || reduce == Reduce::mean;
    if (kColumns == 1 && sums) {
      return fill(first, last);
    }
    for (int64_t n = first; n < last; ++n) {
      if constexpr (kColumns > 0) {
        sums ? spread<kColumns>(n, 0, kColumns) : share<kColumns>(n, 0, kColumns);
      } else {
        for (int64_t k = 0; k < K; k += kBlock) {
          const int64_t columns = std::min(kBlock, K - k);
          sums ? spread<0>(n, k, columns) : share<0>(n, k, columns);
        }
      }
    }
  }
  using Bits = std::conditional_t<sizeof(Number) == 4, uint32_t, uint64_t>;
  CPUACCEL_INLINE static Number only_if(bool condition, Number x) {
    return std::bit_cast<Number>(std::bit_cast<Bits>(x) & (Bits{0} - Bits{condition}));
  }
  int64_t begin(int64_t n) const { return offsets[static_cast<size_t>(n)]; }

  Number share_of(int64_t n, Number whole) const {
    return reduce == kernels::Reduce::mean ? whole / static_cast<Number>(begin(n + 1) - begin(n))
                                           : whole;
  }
  // One column of a sum or a mean. Most segments are short, so kAtOnce elements are written for
  // each, without a branch on its length. The next segments overwrite their part.
  void fill(int64_t first, int64_t last) const {
    constexpr int64_t kAtOnce = 8;
    const int64_t limit = begin(last);
    for (int64_t n = first; n < last; ++n) {
      const Number share = share_of(n, grad[n]);
      int64_t e = begin(n);
      if (e + kAtOnce <= limit) [[likely]] {
        std::fill_n(result + e, kAtOnce, share);
        e += kAtOnce;
      }
      for (const int64_t end = begin(n + 1); e < end; ++e) {
        result[e] = share;
      }
    }
  }
  // Columns [k, k + columns) of segment n, for a sum or a mean.
  template <int64_t kColumns>
  CPUACCEL_INLINE void spread(int64_t n, int64_t k, int64_t columns) const {
    const int64_t row = kColumns > 0 ? kColumns : K, width = kColumns > 0 ? kColumns : columns;
    Number shares[kColumns > 0 ? kColumns : kBlock];
    for (int64_t i = 0; i < width; ++i) {
      shares[i] = share_of(n, grad[n * row + k + i]);
    }
    for (int64_t e = begin(n); e < begin(n + 1); ++e) {
      std::copy_n(shares, width, result + e * row + k);
    }
  }
  // The same for an extreme (amax, amin). Ties share the gradient. NaN counts as a tie: the extreme
  // is NaN then. There may be no tie, if the extreme is `initial`.
  template <int64_t kColumns>
  CPUACCEL_INLINE void share(int64_t n, int64_t k, int64_t columns) const {
    using Count = std::conditional_t<kColumns == 0, int32_t, int64_t>;  // 0: few elements
    const int64_t row = kColumns > 0 ? kColumns : K, width = kColumns > 0 ? kColumns : columns;
    const Number *whole = grad + n * row + k, *extreme = output + n * row + k;
    Count counts[kColumns > 0 ? kColumns : kBlock] = {};
    for (int64_t e = begin(n); e < begin(n + 1); ++e) {
      const Number* from = data + e * stride + k;
      Number* to = result + e * row + k;
      for (int64_t i = 0; i < width; ++i) {
        // No branch: the place of the extreme is not predictable.
        const bool is_extreme = bool(from[i] == extreme[i]) | bool(from[i] != from[i]);
        to[i] = only_if(is_extreme, whole[i]);
        counts[i] += is_extreme ? 1 : 0;
      }
    }
    if (std::all_of(counts, counts + width, [](Count count) { return count <= 1; })) {
      return;
    }
    for (int64_t e = begin(n); e < begin(n + 1); ++e) {
      Number* to = result + e * row + k;
      for (int64_t i = 0; i < width; ++i) {
        to[i] /= static_cast<Number>(std::max<Count>(counts[i], 1));
      }
    }
  }
};

}  // namespace cpuaccel::ops
