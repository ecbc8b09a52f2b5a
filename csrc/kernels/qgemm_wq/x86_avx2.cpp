#include "kernels/qgemm_wq/products_avx2.h"
#include "kernels/qgemm_wq/tile_x86.h"

namespace cpuaccel::kernels {
namespace {

// Codes of 4 bits times bytes: the sum of two products is at most 2 * 15 * 128 = 3840, so that 16
// bits hold those of 32 k. Codes of 8 bits times wide rows: products of 16 bits, added in pairs.
struct Products : Products8 {
  template <int kBits>
  static constexpr int64_t kPartial = kBits == 4 ? 32 : kWqIntegers;
  template <int kBits>
  static constexpr int64_t kRowDwords = 2;
  template <int kBits>
  static constexpr int kOffset = 0;
  static constexpr int kRows = 4;
  template <int kBits>
  static constexpr int kWide = 2;

  // Of 4 bits: bytes of the first and of the second four k. Of 8: int16 of k with k % 2 = 0, and of
  // the others.
  struct Codes {
    Int first, second;
  };
  template <int kBits>
  CPUACCEL_INLINE static Codes split(Int dwords) {
    if constexpr (kBits == 4) {
      return {low_halves(dwords), high_halves(dwords)};
    } else {
      return {_mm256_srai_epi16(_mm256_slli_epi16(dwords, 8), 8), _mm256_srai_epi16(dwords, 8)};
    }
  }

  template <int kBits>
  CPUACCEL_INLINE static Int start(int32_t halves) {
    return set1(halves);
  }

  template <int kBits>
  struct Part {
    Int sums;  // of 4 bits: of int16

    CPUACCEL_INLINE void clear() { sums = _mm256_setzero_si256(); }
    CPUACCEL_INLINE void begin(Int start) { sums = start; }
    CPUACCEL_INLINE void add(const Codes& codes, Int first, Int second) {
      if constexpr (kBits == 4) {
        sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes.first, first));
        sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes.second, second));
      } else {
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(codes.first, first));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(codes.second, second));
      }
    }
    CPUACCEL_INLINE Int as_ints() const {
      return kBits == 4 ? _mm256_madd_epi16(sums, _mm256_set1_epi16(1)) : sums;
    }
  };
};

}  // namespace

const QgemmWqKernels& qgemm_wq_x86_avx2() {
  static constexpr QgemmWqKernels kernels{tile<Products>, true};
  return kernels;
}

}  // namespace cpuaccel::kernels
