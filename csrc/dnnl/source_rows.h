// Computes which src rows a range of a convolution's dst rows reads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cpuaccel::dnnl_layer {

// One dimension of a convolution: `taps` taps, `dilation` rows apart. The first tap of dst row 0 is
// `padding` rows before the src.
struct RowTaps {
  int64_t taps, stride, dilation, padding;
};

// Rows [first, end) of the src, and the rows of padding before and behind them.
struct SourceRows {
  int64_t first, end, before, behind;
};

// The rows that dst rows [first, end) read from a src with `size` rows. Empty if they read only
// padding.
inline SourceRows source_rows(const RowTaps& of, int64_t size, int64_t first, int64_t end) {
  const int64_t from = first * of.stride - of.padding;
  const int64_t to = (end - 1) * of.stride - of.padding + (of.taps - 1) * of.dilation + 1;
  return {std::max<int64_t>(0, from), std::min(size, to), std::max<int64_t>(0, -from),
          std::max<int64_t>(0, to - size)};
}

}  // namespace cpuaccel::dnnl_layer
