// The same as products_avx2.h for AVX-512. Included with AVX-512's flags only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm_wq/avx512.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Products16 {
  using Floats = WqFloats16;
  using Int = __m512i;

  CPUACCEL_INLINE static Int set1(int32_t value) { return _mm512_set1_epi32(value); }
  CPUACCEL_INLINE static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  CPUACCEL_INLINE static __m512 to_floats(Int a) { return _mm512_cvtepi32_ps(a); }
  CPUACCEL_INLINE static Int low_halves(Int bytes) {
    return _mm512_and_si512(bytes, _mm512_set1_epi8(0xf));
  }
  CPUACCEL_INLINE static Int high_halves(Int bytes) {
    return low_halves(_mm512_srli_epi32(bytes, 4));
  }
  CPUACCEL_INLINE static Int plus128(Int bytes) {
    return _mm512_xor_si512(bytes, _mm512_set1_epi8(static_cast<char>(0x80)));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
