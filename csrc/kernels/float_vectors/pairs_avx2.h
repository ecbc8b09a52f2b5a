// Vectors of bf16 pairs as two vectors of floats: elements at even positions and at odd ones.
// Included with AVX2's flags only.
#pragma once

#include <cstdint>

#include "kernels/float_vectors/exp_avx2.h"

namespace cpuaccel::kernels {
namespace {

struct Pairs8 : ExpFloats8 {
  using Pairs = __m256i;

  CPUACCEL_INLINE static Pairs load_pairs(const uint16_t* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  CPUACCEL_INLINE static Vector even(Pairs pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  CPUACCEL_INLINE static Vector odd(Pairs pairs) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }
  // Rounds to nearest, ties away from zero.
  CPUACCEL_INLINE static void store_pairs(uint16_t* dst, Vector even, Vector odd) {
    const __m256i half = _mm256_set1_epi32(0x8000);
    store_highs(dst, _mm256_add_epi32(_mm256_castps_si256(even), half),
                _mm256_add_epi32(_mm256_castps_si256(odd), half));
  }
  // Rounds to nearest even, as torch does.
  CPUACCEL_INLINE static void store_pairs_to_even(uint16_t* dst, Vector even, Vector odd) {
    store_highs(dst, rounded_to_even(even), rounded_to_even(odd));
  }

 private:
  CPUACCEL_INLINE static __m256i rounded_to_even(Vector v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, last), _mm256_set1_epi32(0x7fff));
  }
  CPUACCEL_INLINE static void store_highs(uint16_t* dst, __m256i even, __m256i odd) {
    constexpr int kOddPlaces = 0xaa;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst),
                        _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, kOddPlaces));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
