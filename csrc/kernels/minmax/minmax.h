// Family minmax: minimum and maximum of an array of floats.
//
//   min = min_i src[i], max = max_i src[i]      i in [0, count), count >= 1
//
// NaNs are skipped; if all are NaN, min is +inf and max is -inf.
// Bound: 4 bytes read per element; one load, one minimum, one maximum per vector.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct MinMax {
  float min;
  float max;
};

using MinMaxFunction = MinMax(const float* src, int64_t count);

#define CPUACCEL_KERNEL(name) MinMaxFunction minmax_##name;
#include "kernels/minmax/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<MinMaxFunction>> minmax_kernels();

// Runs the best usable row on all of torch's threads. count >= 1.
CPUACCEL_API MinMax minmax(const float* src, int64_t count);

}  // namespace cpuaccel::kernels
