#include <immintrin.h>

#include "kernels/dequantize/dequantize.h"

namespace cpuaccel::kernels {

void dequantize_x86_avx512(const uint8_t* src, float* dst, int64_t count, float scale,
                           int32_t zero_point, uint8_t flipped_bits) {
  const __m512 factor = _mm512_set1_ps(scale);
  const __m512i offset = _mm512_set1_epi32(zero_point);
  const __m128i flipped = _mm_set1_epi8(static_cast<char>(flipped_bits));
  const auto real = [&](__m128i bytes) {
    const __m512i integers =
        _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, flipped)), offset);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(integers), factor);
  };
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    _mm512_storeu_ps(dst + i, real(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i))));
  }
  if (i < count) {
    const auto mask = static_cast<__mmask16>((1u << (count - i)) - 1u);
    _mm512_mask_storeu_ps(dst + i, mask, real(_mm_maskz_loadu_epi8(mask, src + i)));
  }
}

}  // namespace cpuaccel::kernels
