#include "kernels/floats/exp_neon.h"
#include "kernels/minmax/minmax.h"

namespace cpuaccel::kernels {

MinMax minmax_arm64_neon(const float* src, int64_t count) {
  // min(new, old) is `old` where `new` is a NaN, of any kind; FMINNM skips quiet ones only.
  using V = ExpFloats4;
  constexpr int64_t kVectors = 4;
  V::Vector low[kVectors], high[kVectors];
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
      vminvq_f32(V::min(V::min(low[0], low[1]), V::min(low[2], low[3]))),
      vmaxvq_f32(V::max(V::max(high[0], high[1]), V::max(high[2], high[3]))),
  };
  for (; i < count; ++i) {
    result.min = src[i] < result.min ? src[i] : result.min;
    result.max = src[i] > result.max ? src[i] : result.max;
  }
  return result;
}

}  // namespace cpuaccel::kernels
