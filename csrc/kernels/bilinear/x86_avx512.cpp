#include <immintrin.h>

#include "kernels/bilinear/bilinear.h"

namespace cpuaccel::kernels {
namespace {

inline __m512 floats16(__mmask16 mask, const uint8_t* src) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, src)));
}

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << count) - 1u);
}

inline __m512 mix(__m512 first, __m512 second, __m512 first_weight, __m512 second_weight) {
  return _mm512_fmadd_ps(second_weight, second, _mm512_mul_ps(first_weight, first));
}

}  // namespace

void bilinear_x86_avx512(const BilinearCall& call, const uint8_t* image, int64_t oh,
                         uint8_t* dst_row, float* between) {
  const int64_t C = call.C;
  const BilinearTap& row = call.rows[oh];
  const int64_t count = call.W * C;
  const uint8_t* first = image + row.first * count;
  const uint8_t* second = image + row.second * count;
  const __m512 first_row = _mm512_set1_ps(row.first_weight);
  const __m512 second_row = _mm512_set1_ps(row.second_weight);
  const __m512i odd = _mm512_set1_epi32(call.odd);
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 mask = first_lanes(count - i);
    const __m512 value =
        mix(floats16(mask, first + i), floats16(mask, second + i), first_row, second_row);
    _mm512_mask_storeu_ps(between + i, mask, _mm512_sub_ps(value, _mm512_cvtepi32_ps(odd)));
  }
  for (int64_t ow = 0; ow < call.OW; ++ow, dst_row += C) {
    const BilinearTap& tap = call.columns[ow];
    const float* left = between + tap.first * C;
    const float* right = between + tap.second * C;
    const __m512 first_column = _mm512_set1_ps(tap.first_weight);
    const __m512 second_column = _mm512_set1_ps(tap.second_weight);
    for (int64_t c = 0; c < C; c += 16) {
      const __mmask16 mask = first_lanes(C - c);
      const __m512 value = mix(_mm512_maskz_loadu_ps(mask, left + c),
                               _mm512_maskz_loadu_ps(mask, right + c), first_column, second_column);
      const __m512i bytes = _mm512_add_epi32(_mm512_cvtps_epi32(value), odd);
      _mm_mask_storeu_epi8(dst_row + c, mask, _mm512_cvtusepi32_epi8(bytes));
    }
  }
}

}  // namespace cpuaccel::kernels
