// Codes as floats by AVX2; tile_x86.h describes the class. Included with AVX2's flags only.
#pragma once

#include <array>

#include "kernels/gemm_wq/avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Codes8 : WqFloats8 {
  // A code of 4 bits stays at its place in the dword while it becomes a float: an AND and a
  // conversion. x is divided by the place's power of two. A code of 8 bits is moved to the top,
  // because it has a sign.
  static constexpr std::array<float, 4> kPlaces4{1.0f, 0x1p-8f, 0x1p-16f, 0x1p-24f};
  static constexpr std::array<float, 4> kPlaces8{0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f};
  template <int kBits>
  static constexpr int kOffset = 0;

  CPUACCEL_INLINE static Dwords upper_half(Dwords dwords) { return _mm256_srli_epi32(dwords, 4); }

  template <int kBits, int kStep>
  CPUACCEL_INLINE static Vector code(Dwords dwords) {
    if constexpr (kBits == 4) {
      constexpr auto kMask = static_cast<int>(0xfu << 8 * (kStep % 4));
      return _mm256_cvtepi32_ps(_mm256_and_si256(dwords, _mm256_set1_epi32(kMask)));
    } else {
      const Dwords moved = kStep == 3 ? dwords : _mm256_slli_epi32(dwords, 24 - 8 * kStep);
      const Dwords top = _mm256_set1_epi32(static_cast<int>(0xff000000));
      return _mm256_cvtepi32_ps(kStep == 0 ? moved : _mm256_and_si256(moved, top));
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
