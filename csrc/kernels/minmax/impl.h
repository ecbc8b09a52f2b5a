// Loop of the minmax kernels for Arm's vectors of floats. V::min and V::max return their second
// operand if the first is a NaN; the instructions that skip NaNs skip quiet ones only. V::smallest
// and V::largest reduce the lanes of a vector. Included by ISA files.
#pragma once

#include "kernels/minmax/minmax.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
MinMax minmax_by(const float* src, int64_t count) {
  constexpr int64_t kVectors = 4;
  typename V::Vector low[kVectors], high[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    low[v] = V::set1(__builtin_inff());
    high[v] = V::negative(low[v]);
  }
  int64_t i = 0;
  for (; i + kVectors * V::kLanes <= count; i += kVectors * V::kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto values = V::load(src + i + v * V::kLanes);
      low[v] = V::min(values, low[v]);
      high[v] = V::max(values, high[v]);
    }
  }
  MinMax result{
      V::smallest(V::min(V::min(low[0], low[1]), V::min(low[2], low[3]))),
      V::largest(V::max(V::max(high[0], high[1]), V::max(high[2], high[3]))),
  };
  for (; i < count; ++i) {
    result.min = src[i] < result.min ? src[i] : result.min;
    result.max = src[i] > result.max ? src[i] : result.max;
  }
  return result;
}

}  // namespace
}  // namespace cpuaccel::kernels
