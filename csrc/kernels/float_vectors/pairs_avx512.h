// Vectors of bf16 pairs as two vectors of floats: elements at even positions and at odd ones.
// Included with AVX-512's flags only.
#pragma once

#include <cstdint>

#include "kernels/float_vectors/exp_avx512.h"

namespace cpuaccel::kernels {
namespace {

struct Pairs16 : ExpFloats16 {
  using Pairs = __m512i;

  CPUACCEL_INLINE static __m512i high() { return _mm512_set1_epi32(static_cast<int>(0xffff0000)); }
  CPUACCEL_INLINE static Pairs load_pairs(const uint16_t* src) { return _mm512_loadu_si512(src); }
  CPUACCEL_INLINE static Vector even(Pairs pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  }
  CPUACCEL_INLINE static Vector odd(Pairs pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, high()));
  }
  // Rounds to nearest, ties away from zero.
  CPUACCEL_INLINE static void store_pairs(uint16_t* dst, Vector even, Vector odd) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    store_highs(dst, _mm512_add_epi32(_mm512_castps_si512(even), half),
                _mm512_add_epi32(_mm512_castps_si512(odd), half));
  }
  // Rounds to nearest even, as torch does.
  CPUACCEL_INLINE static void store_pairs_to_even(uint16_t* dst, Vector even, Vector odd) {
    store_highs(dst, rounded_to_even(even), rounded_to_even(odd));
  }

 private:
  CPUACCEL_INLINE static __m512i rounded_to_even(Vector v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, last), _mm512_set1_epi32(0x7fff));
  }
  CPUACCEL_INLINE static void store_highs(uint16_t* dst, __m512i even, __m512i odd) {
    constexpr int kEvenOrHighOfOdd = 0xf8;  // a | b & c
    _mm512_storeu_si512(
        dst, _mm512_ternarylogic_epi32(_mm512_srli_epi32(even, 16), odd, high(), kEvenOrHighOfOdd));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
