#include <immintrin.h>

#include <algorithm>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBytes = 32;

struct Quantizer {
  __m256 inverse_scale;
  __m256 zero_point;
  __m256i offset;  // 32 bits each

  // Eight floats to eight int32, limited so that nothing overflows.
  __m256i rounded(__m256 real) const {
    const __m256 limit = _mm256_set1_ps(1.0e9f);
    __m256 value = _mm256_fmadd_ps(real, inverse_scale, zero_point);
    value = _mm256_min_ps(value, limit);  // of a NaN and a number: the second operand
    value = _mm256_max_ps(value, _mm256_sub_ps(_mm256_setzero_ps(), limit));
    return _mm256_add_epi32(_mm256_cvtps_epi32(value), offset);
  }

  // The packs interleave the 128-bit lanes; the permutation puts the groups of four bytes back.
  void operator()(const __m256 (&reals)[4], uint8_t* dst) const {
    const __m256i low = _mm256_packs_epi32(rounded(reals[0]), rounded(reals[1]));
    const __m256i high = _mm256_packs_epi32(rounded(reals[2]), rounded(reals[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m256i flipped = _mm256_shuffle_epi8(offset, _mm256_setzero_si256());
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm256_xor_si256(bytes, flipped));
  }
};

struct Plain {
  const float* src;
  void copy(int64_t count, float* to) const { std::copy_n(src, count, to); }
  void read(int64_t i, __m256 (&reals)[4]) const {
    for (int64_t j = 0; j < 4; ++j) {
      reals[j] = _mm256_loadu_ps(src + i + 8 * j);
    }
  }
};

struct Scaled {
  const float* src;
  const float* factors;
  void copy(int64_t count, float* to) const {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = src[i] * factors[i];
    }
  }
  void read(int64_t i, __m256 (&reals)[4]) const {
    for (int64_t j = 0; j < 4; ++j) {
      reals[j] =
          _mm256_mul_ps(_mm256_loadu_ps(src + i + 8 * j), _mm256_loadu_ps(factors + i + 8 * j));
    }
  }
};

template <typename Source>
void quantize_all(const Source& source, uint8_t* dst, int64_t count, const Quantizer& quantize) {
  __m256 reals[4];
  if (count >= kBytes) {
    for (int64_t i = 0; i < count - kBytes; i += kBytes) {
      source.read(i, reals);
      quantize(reals, dst + i);
    }
    source.read(count - kBytes, reals);
    quantize(reals, dst + count - kBytes);  // may overlap the one before
    return;
  }
  float padded[kBytes] = {};
  uint8_t result[kBytes];
  source.copy(count, padded);
  Plain{padded}.read(0, reals);
  quantize(reals, result);
  std::copy_n(result, count, dst);
}

}  // namespace

void quantize_x86_avx2(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                       float zero_point, uint8_t offset) {
  quantize_all(
      Plain{src}, dst, count,
      {_mm256_set1_ps(inverse_scale), _mm256_set1_ps(zero_point), _mm256_set1_epi32(offset)});
}

void quantize_scaled_x86_avx2(const float* src, const float* factors, uint8_t* dst, int64_t count,
                              float inverse_scale, float zero_point) {
  quantize_all(Scaled{src, factors}, dst, count,
               {_mm256_set1_ps(inverse_scale), _mm256_set1_ps(zero_point), _mm256_setzero_si256()});
}

}  // namespace cpuaccel::kernels
