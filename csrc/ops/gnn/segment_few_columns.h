// The gradient of segment_reduce over one to three columns, in plain loops.
//
// The kernels that gather rows and compare vectors take an index for each row and a masked vector
// for each comparison: two to three times as long as the sums of so few columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "kernels/segment/segment.h"

namespace cpuaccel::ops {

inline constexpr int64_t kMostFewColumns = 3;

// grad, output and result are dense, of K columns; rows of data are `stride` numbers apart. Row e
// is in segment n if it is in [offsets[n], offsets[n + 1]).
template <typename Number>
struct FewColumnGradient {
  kernels::SegmentReduce reduce;
  std::span<const int64_t> offsets;
  int64_t K, stride;
  const Number *grad, *output, *data;
  Number* result;

  void run() const {
    constexpr int64_t kGrainNumbers = 1 << 15;
    const auto count = static_cast<int64_t>(offsets.size()) - 1;
    const int64_t numbers = (offsets.back() - offsets.front()) * K / std::max<int64_t>(count, 1);
    parallel_for(0, count, kGrainNumbers / (numbers + 1) + 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        for (int64_t k = 0; k < K; ++k) {
          column(n, k);
        }
      }
    });
  }

 private:
  void column(int64_t n, int64_t k) const {
    using kernels::SegmentReduce;
    const int64_t begin = offsets[static_cast<size_t>(n)],
                  end = offsets[static_cast<size_t>(n) + 1];
    const Number whole = grad[n * K + k];
    if (reduce == SegmentReduce::sum || reduce == SegmentReduce::mean) {
      const Number share =
          reduce == SegmentReduce::sum ? whole : whole / static_cast<Number>(end - begin);
      for (int64_t e = begin; e < end; ++e) {
        result[e * K + k] = share;
      }
      return;
    }
    // Equal ones share; NaN is equal to the largest, which is NaN then.
    const Number largest = output[n * K + k];
    const auto ties = [&](int64_t e) {
      const Number x = data[e * stride + k];
      return x == largest || __builtin_isnan(x);
    };
    int64_t count = 0;
    for (int64_t e = begin; e < end; ++e) {
      count += ties(e) ? 1 : 0;
    }
    // None of them may be the largest: `initial` was.
    const Number share = whole / static_cast<Number>(std::max<int64_t>(count, 1));
    for (int64_t e = begin; e < end; ++e) {
      result[e * K + k] = ties(e) ? share : Number{0};
    }
  }
};

}  // namespace cpuaccel::ops
