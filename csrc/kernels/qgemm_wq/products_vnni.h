// Products by instructions that add four products of u8 and s8 to an int32: Base::dot. Included by
// ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/inline.h"
#include "kernels/qgemm_wq/qgemm_wq.h"

namespace cpuaccel::kernels {
namespace {

template <typename Base, int kMostRows>
struct VnniProducts : Base {
  using Int = typename Base::Int;
  template <int kBits>
  static constexpr int64_t kPartial = kWqIntegers;
  template <int kBits>
  static constexpr int64_t kRowDwords = kBits == 4 ? 2 : 1;
  template <int kBits>
  static constexpr int kOffset = kBits == 4 ? 0 : 128;
  static constexpr int kRows = kMostRows;
  template <int kBits>
  static constexpr int kWide = 2;

  // Of 4 bits: codes of the first and of the second four k. Of 8: only `low`, whole bytes.
  struct Codes {
    Int low, high;
  };
  template <int kBits>
  CPUACCEL_INLINE static Codes split(Int dwords) {
    if constexpr (kBits == 8) {
      const Int bytes = Base::plus128(dwords);
      return {bytes, bytes};
    } else {
      return {Base::low_halves(dwords), Base::high_halves(dwords)};
    }
  }

  // -8 for codes of 4 bits, -128 for those of 8 bits.
  template <int kBits>
  CPUACCEL_INLINE static Int start(int32_t halves) {
    const int32_t sum = static_cast<int16_t>(halves) + (halves >> 16);
    return Base::set1(kBits == 4 ? sum : 16 * sum);
  }

  template <int kBits>
  struct Part {
    Int sums;

    CPUACCEL_INLINE void clear() { sums = Base::set1(0); }
    CPUACCEL_INLINE void begin(Int start) { sums = start; }
    CPUACCEL_INLINE void add(const Codes& codes, Int first, Int second) {
      sums = Base::dot(sums, codes.low, first);
      if constexpr (kBits == 4) {
        sums = Base::dot(sums, codes.high, second);
      }
    }
    CPUACCEL_INLINE Int as_ints() const { return sums; }
  };
};

}  // namespace
}  // namespace cpuaccel::kernels
