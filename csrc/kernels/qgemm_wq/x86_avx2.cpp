#include "kernels/qgemm_wq/products_avx2.h"
#include "kernels/qgemm_wq/tile_x86.h"

namespace cpuaccel::kernels {
namespace {

// Halves of 4 bits times bytes: the sum of two products is at most 2 * 15 * 128 = 3840, so that
// 16 bits hold those of 32 k.
struct Products : Products8 {
  static constexpr int64_t kPartial = 32;
  static constexpr int kRows = 4;
  template <int kBits>
  static constexpr int kWide = kBits == 4 ? 2 : 1;

  // Of 4 bits: codes of the first and of the second four k. Of 8: halves of the same four k.
  struct Codes {
    Int low, high;
  };
  template <int kBits>
  CPUACCEL_INLINE static Codes split(Int dwords) {
    const Int bytes = kBits == 8 ? plus128(dwords) : dwords;
    return {low_halves(bytes), high_halves(bytes)};
  }

  template <int kBits>
  CPUACCEL_INLINE static Int start(int32_t halves) {
    return set1(halves);
  }

  template <int kBits>
  struct Part {
    Int low, high;  // `high` counts sixteenfold

    CPUACCEL_INLINE void clear() { low = high = _mm256_setzero_si256(); }
    // -8 for codes of 4 bits, and 16 times that for those of 8 bits.
    CPUACCEL_INLINE void begin(Int start) {
      clear();
      (kBits == 4 ? low : high) = start;
    }
    CPUACCEL_INLINE void add(const Codes& codes, Int first, Int second) {
      low = _mm256_add_epi16(low, _mm256_maddubs_epi16(codes.low, first));
      const Int products = _mm256_maddubs_epi16(codes.high, second);
      (kBits == 4 ? low : high) = _mm256_add_epi16(kBits == 4 ? low : high, products);
    }
    CPUACCEL_INLINE Int as_ints() const {
      const Int sums = _mm256_madd_epi16(low, _mm256_set1_epi16(1));
      return kBits == 4 ? sums
                        : _mm256_add_epi32(sums, _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
    }
  };
};

}  // namespace

void qgemm_wq_x86_avx2(const QgemmWqTile& t) { tile<Products>(t); }

}  // namespace cpuaccel::kernels
