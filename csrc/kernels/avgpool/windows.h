// The windows of pooling along one dimension of an image, as torch places them.
#pragma once

#include <cstdint>

#include "base/api.h"
#include "kernels/avgpool/avgpool.h"

namespace cpuaccel::kernels {

// kernel, stride and dilation are positive; padding is in [0, kernel / 2].
struct PoolWindow {
  int64_t kernel, stride, padding, dilation = 1;
};

// The number of windows along a dimension of `size` pixels; 0 or less if no window fits.
CPUACCEL_API int64_t pooled_size(int64_t size, const PoolWindow& window, bool ceil_mode);

// Writes the ranges of `count` windows, which is pooled_size(). Dilation is 1.
CPUACCEL_API void window_ranges(int64_t size, const PoolWindow& window, bool count_include_pad,
                                int64_t count, AvgpoolRange* ranges);

// Divides `size` pixels among `count` outputs as torch does, in float.
CPUACCEL_API void adaptive_ranges(int64_t size, int64_t count, AvgpoolRange* ranges);

}  // namespace cpuaccel::kernels
