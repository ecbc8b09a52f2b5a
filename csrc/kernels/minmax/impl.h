// Loop of the minmax kernels, for vector classes of floats. V::min and V::max return their second
// operand if the first is a NaN; Arm's instructions that skip NaNs skip quiet ones only.
// V::smallest and V::largest reduce the lanes of a vector. With a mask, V::min and V::max return
// their second operand in the other lanes. Included by ISA sources.
#pragma once

#include "kernels/inline.h"
#include "kernels/minmax/minmax.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, int kVectors>
MinMax minmax_by(const float* src, int64_t count) {
  typename V::Vector low[kVectors], high[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    low[v] = V::set1(__builtin_inff());
    high[v] = V::set1(-__builtin_inff());
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
  if constexpr (requires { V::min(low[0], low[0], V::mask(count)); }) {
    for (; i + V::kLanes <= count; i += V::kLanes) {
      const auto values = V::load(src + i);
      low[0] = V::min(values, low[0]);
      high[0] = V::max(values, high[0]);
    }
    const auto m = V::mask(count - i);
    const auto values = V::load(src + i, m);
    low[0] = V::min(values, low[0], m);
    high[0] = V::max(values, high[0], m);
    i = count;
  }
#pragma GCC unroll 4
  for (int v = 1; v < kVectors; ++v) {
    low[0] = V::min(low[0], low[v]);
    high[0] = V::max(high[0], high[v]);
  }
  MinMax result{V::smallest(low[0]), V::largest(high[0])};
  for (; i < count; ++i) {
    result.min = src[i] < result.min ? src[i] : result.min;
    result.max = src[i] > result.max ? src[i] : result.max;
  }
  return result;
}

}  // namespace
}  // namespace cpuaccel::kernels
