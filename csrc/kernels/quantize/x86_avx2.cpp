#include <immintrin.h>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBytes = 32;

struct Quantizer {
  __m256 inverse_scale;
  __m256 zero_point;
  __m256i offset;  // 32 bits each

  // Eight floats to eight int32, limited so that nothing overflows.
  __m256i rounded(const float* src) const {
    const __m256 limit = _mm256_set1_ps(1.0e9f);
    __m256 value = _mm256_fmadd_ps(_mm256_loadu_ps(src), inverse_scale, zero_point);
    value = _mm256_min_ps(value, limit);  // of a NaN and a number: the second operand
    value = _mm256_max_ps(value, _mm256_sub_ps(_mm256_setzero_ps(), limit));
    return _mm256_add_epi32(_mm256_cvtps_epi32(value), offset);
  }

  // The packs interleave the 128-bit lanes; the permutation puts the groups of four bytes back.
  void operator()(const float* src, uint8_t* dst) const {
    const __m256i low = _mm256_packs_epi32(rounded(src), rounded(src + 8));
    const __m256i high = _mm256_packs_epi32(rounded(src + 16), rounded(src + 24));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m256i flipped = _mm256_shuffle_epi8(offset, _mm256_setzero_si256());
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm256_xor_si256(bytes, flipped));
  }
};

}  // namespace

void quantize_x86_avx2(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                       float zero_point, uint8_t offset) {
  const Quantizer quantize{_mm256_set1_ps(inverse_scale), _mm256_set1_ps(zero_point),
                           _mm256_set1_epi32(offset)};
  if (count >= kBytes) {
    for (int64_t i = 0; i < count - kBytes; i += kBytes) {
      quantize(src + i, dst + i);
    }
    quantize(src + count - kBytes, dst + count - kBytes);  // may overlap the one before
    return;
  }
  float padded[kBytes] = {};
  uint8_t result[kBytes];
  for (int64_t i = 0; i < count; ++i) {
    padded[i] = src[i];
  }
  quantize(padded, result);
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = result[i];
  }
}

}  // namespace cpuaccel::kernels
