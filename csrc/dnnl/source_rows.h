// Which rows of its source some rows of a convolution's results are made of.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cpuaccel::dnnl_layer {

// Of one dimension: `taps` of them `dilation` rows apart, the first of result 0 `padding` rows
// before the source.
struct RowTaps {
  int64_t taps, stride, dilation, padding;
};

// [first, end) of the source, and the rows of padding before and behind them.
struct SourceRows {
  int64_t first, end, before, behind;
};

// Of results [first, end), where the source has `size` rows. Empty if padding is all they read.
inline SourceRows source_rows(const RowTaps& of, int64_t size, int64_t first, int64_t end) {
  const int64_t from = first * of.stride - of.padding;
  const int64_t to = (end - 1) * of.stride - of.padding + (of.taps - 1) * of.dilation + 1;
  return {std::max<int64_t>(0, from), std::min(size, to), std::max<int64_t>(0, -from),
          std::max<int64_t>(0, to - size)};
}

}  // namespace cpuaccel::dnnl_layer
