#include <immintrin.h>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

// `read` gives sixteen floats from an index on, those of a mask.
template <typename Read>
[[gnu::always_inline]] inline void quantize(Read read, uint8_t* dst, int64_t count,
                                            float inverse_scale, float zero_point, uint8_t offset) {
  const __m512 scale = _mm512_set1_ps(inverse_scale);
  const __m512 added = _mm512_set1_ps(zero_point);
  const __m512 limit = _mm512_set1_ps(1.0e9f);
  const __m512 lower = _mm512_set1_ps(-1.0e9f);
  const __m512i shift = _mm512_set1_epi32(offset);
  const __m128i flipped = _mm_set1_epi8(static_cast<char>(offset));
  for (int64_t i = 0; i < count; i += 16) {
    const int64_t left = count - i;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1u << left) - 1u);
    __m512 value = _mm512_fmadd_ps(read(i, mask), scale, added);
    value = _mm512_max_ps(_mm512_min_ps(value, limit), lower);  // a NaN: the limit
    const __m512i sum = _mm512_add_epi32(_mm512_cvtps_epi32(value), shift);
    const __m512i floored = _mm512_max_epi32(sum, _mm512_setzero_si512());
    _mm_mask_storeu_epi8(dst + i, mask, _mm_xor_si128(_mm512_cvtusepi32_epi8(floored), flipped));
  }
}

}  // namespace

void quantize_x86_avx512(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                         float zero_point, uint8_t offset) {
  const auto read = [=](int64_t i, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, src + i); };
  quantize(read, dst, count, inverse_scale, zero_point, offset);
}

void quantize_scaled_x86_avx512(const float* src, const float* factors, uint8_t* dst, int64_t count,
                                float inverse_scale, float zero_point) {
  const auto read = [=](int64_t i, __mmask16 mask) {
    return _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, src + i),
                         _mm512_maskz_loadu_ps(mask, factors + i));
  };
  quantize(read, dst, count, inverse_scale, zero_point, 0);
}

}  // namespace cpuaccel::kernels
