#include <immintrin.h>

#include "kernels/minmax/minmax.h"

namespace cpuaccel::kernels {

// min(new, old) returns `old` if `new` is a NaN: the instruction then returns its second operand.
MinMax minmax_x86_avx2(const float* src, int64_t count) {
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  __m256 low0 = infinity, low1 = infinity;
  __m256 high0 = _mm256_sub_ps(_mm256_setzero_ps(), infinity), high1 = high0;
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256 a = _mm256_loadu_ps(src + i);
    const __m256 b = _mm256_loadu_ps(src + i + 8);
    low0 = _mm256_min_ps(a, low0);
    high0 = _mm256_max_ps(a, high0);
    low1 = _mm256_min_ps(b, low1);
    high1 = _mm256_max_ps(b, high1);
  }
  alignas(32) float low[8];
  alignas(32) float high[8];
  _mm256_store_ps(low, _mm256_min_ps(low0, low1));
  _mm256_store_ps(high, _mm256_max_ps(high0, high1));
  MinMax result{low[0], high[0]};
  for (int lane = 1; lane < 8; ++lane) {
    result.min = low[lane] < result.min ? low[lane] : result.min;
    result.max = high[lane] > result.max ? high[lane] : result.max;
  }
  for (; i < count; ++i) {
    result.min = src[i] < result.min ? src[i] : result.min;
    result.max = src[i] > result.max ? src[i] : result.max;
  }
  return result;
}

}  // namespace cpuaccel::kernels
