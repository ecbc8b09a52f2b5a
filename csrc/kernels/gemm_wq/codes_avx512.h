// Codes as floats by AVX-512; tile_x86.h describes the class. Included with AVX-512's flags only.
#pragma once

#include <array>

#include "kernels/gemm_wq/avx512.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Codes16 : WqFloats16 {
  // The lowest four bits of a dword select the float of a code, from which the center is
  // subtracted. Codes of 8 bits are moved as on AVX2.
  static constexpr std::array<float, 4> kPlaces4{1.0f, 1.0f, 1.0f, 1.0f};
  static constexpr std::array<float, 4> kPlaces8{0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f};
  template <int kBits>
  static constexpr int kOffset = kBits == 4 ? -8 : 0;

  CPUACCEL_INLINE static Dwords upper_half(Dwords dwords) { return _mm512_srli_epi32(dwords, 4); }

  template <int kBits, int kStep>
  CPUACCEL_INLINE static Vector code(Dwords dwords) {
    if constexpr (kBits == 4) {
      const Vector values = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
      return _mm512_permutexvar_ps(_mm512_srli_epi32(dwords, 8 * (kStep % 4)), values);
    } else {
      const Dwords moved = kStep == 3 ? dwords : _mm512_slli_epi32(dwords, 24 - 8 * kStep);
      const Dwords top = _mm512_set1_epi32(static_cast<int>(0xff000000));
      return _mm512_cvtepi32_ps(kStep == 0 ? moved : _mm512_and_si512(moved, top));
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
