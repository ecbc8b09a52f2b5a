#include "kernels/avgpool/windows.h"

#include <algorithm>
#include <cmath>

namespace cpuaccel::kernels {

int64_t pooled_size(int64_t size, const PoolWindow& window, bool ceil_mode) {
  const int64_t stride = window.stride;
  const int64_t room = size + 2 * window.padding - window.dilation * (window.kernel - 1) - 1 +
                       (ceil_mode ? stride - 1 : 0);
  const bool rounded_up = room < 0 && room % stride != 0;  // division is to round down
  const int64_t count = room / stride - (rounded_up ? 1 : 0) + 1;
  // The last window has to begin in the image or in the padding before it.
  return ceil_mode && (count - 1) * stride >= size + window.padding ? count - 1 : count;
}

void window_ranges(int64_t size, const PoolWindow& window, bool count_include_pad, int64_t count,
                   AvgpoolRange* ranges) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * window.stride - window.padding;
    const int64_t end = std::min(begin + window.kernel, size + window.padding);
    const int64_t inside_begin = std::max<int64_t>(begin, 0);
    const int64_t inside_end = std::min(end, size);
    ranges[i] = {inside_begin, inside_end,
                 count_include_pad ? end - begin : inside_end - inside_begin};
  }
}

void adaptive_ranges(int64_t size, int64_t count, AvgpoolRange* ranges) {
  for (int64_t i = 0; i < count; ++i) {
    const auto step = [&](int64_t index) {
      return static_cast<float>(index * size) / static_cast<float>(count);
    };
    const auto begin = static_cast<int64_t>(std::floor(step(i)));
    const auto end = static_cast<int64_t>(std::ceil(step(i + 1)));
    ranges[i] = {begin, end, end - begin};
  }
}

}  // namespace cpuaccel::kernels
