#include <immintrin.h>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

// Eight floats to eight int32 of zero_point + rounded value, limited so that nothing overflows.
inline __m256i quantize8(__m256 value, __m256 inverse_scale, __m256i zero_point) {
  const __m256 limit = _mm256_set1_ps(1.0e9f);
  value = _mm256_mul_ps(value, inverse_scale);
  value = _mm256_min_ps(value, limit);  // of a NaN and a number: the second operand
  value = _mm256_max_ps(value, _mm256_sub_ps(_mm256_setzero_ps(), limit));
  return _mm256_add_epi32(_mm256_cvtps_epi32(value), zero_point);
}

}  // namespace

void quantize_x86_avx2(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                       int32_t zero_point, uint8_t flipped_bits) {
  const __m256 scale = _mm256_set1_ps(inverse_scale);
  const __m256i offset = _mm256_set1_epi32(zero_point);
  const __m256i flipped = _mm256_set1_epi8(static_cast<char>(flipped_bits));
  // The packs interleave the 128-bit lanes; this puts the groups of four bytes back in order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i a = quantize8(_mm256_loadu_ps(src + i), scale, offset);
    const __m256i b = quantize8(_mm256_loadu_ps(src + i + 8), scale, offset);
    const __m256i c = quantize8(_mm256_loadu_ps(src + i + 16), scale, offset);
    const __m256i d = quantize8(_mm256_loadu_ps(src + i + 24), scale, offset);
    const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i),
                        _mm256_permutevar8x32_epi32(_mm256_xor_si256(bytes, flipped), order));
  }
  if (i < count) {
    quantize_ref(src + i, dst + i, count - i, inverse_scale, zero_point, flipped_bits);
  }
}

}  // namespace cpuaccel::kernels
