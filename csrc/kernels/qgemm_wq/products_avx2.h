// Products of AVX2 and AVX-VNNI. Included with their flags only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm_wq/avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Products8 {
  using Floats = WqFloats8;
  using Int = __m256i;

  CPUACCEL_INLINE static Int set1(int32_t value) { return _mm256_set1_epi32(value); }
  CPUACCEL_INLINE static Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  CPUACCEL_INLINE static __m256 to_floats(Int a) { return _mm256_cvtepi32_ps(a); }
  CPUACCEL_INLINE static Int low_halves(Int bytes) {
    return _mm256_and_si256(bytes, _mm256_set1_epi8(0xf));
  }
  CPUACCEL_INLINE static Int high_halves(Int bytes) {
    return low_halves(_mm256_srli_epi32(bytes, 4));
  }
  CPUACCEL_INLINE static Int plus128(Int bytes) {
    return _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80)));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
