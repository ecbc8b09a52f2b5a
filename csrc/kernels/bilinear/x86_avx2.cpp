#include <immintrin.h>

#include "kernels/bilinear/bilinear.h"

namespace cpuaccel::kernels {
namespace {

inline __m256 floats8(const uint8_t* src) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(src)));
}

inline __m256 mix(__m256 first, __m256 second, __m256 first_weight, __m256 second_weight) {
  return _mm256_fmadd_ps(second_weight, second, _mm256_mul_ps(first_weight, first));
}

struct Column {
  const float* first;
  const float* second;
  __m256 first_weight, second_weight;
  __m256i odd;

  __m256i rounded8(int64_t c) const {
    const __m256 value =
        mix(_mm256_loadu_ps(first + c), _mm256_loadu_ps(second + c), first_weight, second_weight);
    return _mm256_add_epi32(_mm256_cvtps_epi32(value), odd);
  }
};

// The packs interleave the 128-bit lanes; this puts the groups of four bytes back in order.
inline void store32(const Column& column, int64_t c, uint8_t* dst) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i low = _mm256_packs_epi32(column.rounded8(c), column.rounded8(c + 8));
  const __m256i high = _mm256_packs_epi32(column.rounded8(c + 16), column.rounded8(c + 24));
  const __m256i bytes = _mm256_packus_epi16(low, high);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + c),
                      _mm256_permutevar8x32_epi32(bytes, order));
}

inline void store8(const Column& column, int64_t c, uint8_t* dst) {
  const __m256i values = column.rounded8(c);
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  _mm_storeu_si64(dst + c, _mm_packus_epi16(words, words));
}

}  // namespace

void bilinear_x86_avx2(const BilinearCall& call, const uint8_t* image, int64_t oh, uint8_t* dst_row,
                       float* between) {
  const int64_t C = call.C;
  if (C < 8) {
    bilinear_ref(call, image, oh, dst_row, between);
    return;
  }
  const BilinearTap& row = call.rows[oh];
  const int64_t count = call.W * C;
  const uint8_t* first = image + row.first * count;
  const uint8_t* second = image + row.second * count;
  const __m256 first_weight = _mm256_set1_ps(row.first_weight);
  const __m256 second_weight = _mm256_set1_ps(row.second_weight);
  const __m256i odd = _mm256_set1_epi32(call.odd);
  for (int64_t next = 0; next < count; next += 8) {
    const int64_t i = next + 8 <= count ? next : count - 8;
    const __m256 value = mix(floats8(first + i), floats8(second + i), first_weight, second_weight);
    _mm256_storeu_ps(between + i, _mm256_sub_ps(value, _mm256_cvtepi32_ps(odd)));
  }
  for (int64_t ow = 0; ow < call.OW; ++ow, dst_row += C) {
    const BilinearTap& tap = call.columns[ow];
    const Column column{between + tap.first * C, between + tap.second * C,
                        _mm256_set1_ps(tap.first_weight), _mm256_set1_ps(tap.second_weight), odd};
    int64_t c = 0;
    for (; c + 32 <= C; c += 32) {
      store32(column, c, dst_row);
    }
    for (; c + 8 <= C; c += 8) {
      store8(column, c, dst_row);
    }
    if (c < C) {  // some channels twice
      store8(column, C - 8, dst_row);
    }
  }
}

}  // namespace cpuaccel::kernels
