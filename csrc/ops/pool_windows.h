// The windows of average pooling along one dimension of an image, as torch places them.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>

#include "kernels/avgpool/avgpool.h"

namespace cpuaccel::ops {

using Ranges = c10::SmallVector<kernels::AvgpoolRange, 32>;

struct PoolWindow {
  int64_t kernel, stride, padding;
};

// Divides `size` pixels among `count` outputs as torch does, in float.
Ranges adaptive_ranges(int64_t size, int64_t count);

// Empty if no window fits.
Ranges window_ranges(int64_t size, const PoolWindow& window, bool ceil_mode,
                     bool count_include_pad);

}  // namespace cpuaccel::ops
