#include <immintrin.h>

#include "kernels/dequantize/dequantize.h"

namespace cpuaccel::kernels {

void dequantize_x86_avx2(const uint8_t* src, float* dst, int64_t count, float scale,
                         int32_t zero_point, uint8_t flipped_bits) {
  const __m256 factor = _mm256_set1_ps(scale);
  const __m256i offset = _mm256_set1_epi32(zero_point);
  const __m128i flipped = _mm_set1_epi8(static_cast<char>(flipped_bits));
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i bytes =
        _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i)), flipped);
    const __m256i low = _mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), offset);
    const __m256i high =
        _mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)), offset);
    _mm256_storeu_ps(dst + i, _mm256_mul_ps(_mm256_cvtepi32_ps(low), factor));
    _mm256_storeu_ps(dst + i + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(high), factor));
  }
  dequantize_ref(src + i, dst + i, count - i, scale, zero_point, flipped_bits);
}

}  // namespace cpuaccel::kernels
