#include "ops/pool_windows.h"

#include <ATen/native/Pool.h>

#include <algorithm>
#include <cmath>

namespace cpuaccel::ops {

Ranges adaptive_ranges(int64_t size, int64_t count) {
  Ranges ranges;
  for (int64_t i = 0; i < count; ++i) {
    const auto step = [&](int64_t index) {
      return static_cast<float>(index * size) / static_cast<float>(count);
    };
    const auto begin = static_cast<int64_t>(std::floor(step(i)));
    const auto end = static_cast<int64_t>(std::ceil(step(i + 1)));
    ranges.push_back({begin, end, end - begin});
  }
  return ranges;
}

Ranges window_ranges(int64_t size, const PoolWindow& window, bool ceil_mode,
                     bool count_include_pad) {
  Ranges ranges;
  const int64_t count = at::native::pooling_output_shape<int64_t>(
      size, window.kernel, window.padding, window.stride, 1, ceil_mode);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * window.stride - window.padding;
    const int64_t end = std::min(begin + window.kernel, size + window.padding);
    const int64_t inside_begin = std::max<int64_t>(begin, 0);
    const int64_t inside_end = std::min(end, size);
    ranges.push_back(
        {inside_begin, inside_end, count_include_pad ? end - begin : inside_end - inside_begin});
  }
  return ranges;
}

}  // namespace cpuaccel::ops
