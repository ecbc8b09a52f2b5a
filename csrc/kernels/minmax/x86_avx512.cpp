#include <immintrin.h>

#include "kernels/minmax/minmax.h"

namespace cpuaccel::kernels {

// min(new, old) returns `old` if `new` is a NaN: the instruction then returns its second operand.
// The tail is masked, so lanes past the end keep their values.
MinMax minmax_x86_avx512(const float* src, int64_t count) {
  const __m512 infinity = _mm512_set1_ps(__builtin_inff());
  __m512 low0 = infinity, low1 = infinity;
  __m512 high0 = _mm512_sub_ps(_mm512_setzero_ps(), infinity), high1 = high0;
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m512 a = _mm512_loadu_ps(src + i);
    const __m512 b = _mm512_loadu_ps(src + i + 16);
    low0 = _mm512_min_ps(a, low0);
    high0 = _mm512_max_ps(a, high0);
    low1 = _mm512_min_ps(b, low1);
    high1 = _mm512_max_ps(b, high1);
  }
  for (; i < count; i += 16) {
    const int64_t left = count - i;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1u << left) - 1u);
    const __m512 a = _mm512_maskz_loadu_ps(mask, src + i);
    low0 = _mm512_mask_min_ps(low0, mask, a, low0);
    high0 = _mm512_mask_max_ps(high0, mask, a, high0);
  }
  return {_mm512_reduce_min_ps(_mm512_min_ps(low0, low1)),
          _mm512_reduce_max_ps(_mm512_max_ps(high0, high1))};
}

}  // namespace cpuaccel::kernels
