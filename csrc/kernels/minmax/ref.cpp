#include <limits>

#include "kernels/minmax/minmax.h"

namespace cpuaccel::kernels {

MinMax minmax_ref(const float* src, int64_t count) {
  MinMax result{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (int64_t i = 0; i < count; ++i) {
    // Comparisons with a NaN are false, so NaNs are skipped.
    if (src[i] < result.min) {
      result.min = src[i];
    }
    if (src[i] > result.max) {
      result.max = src[i];
    }
  }
  return result;
}

}  // namespace cpuaccel::kernels
