// Average pooling of one window, for any vector class of bytes. Included by ISA sources only.
//
// Bytes are added as 16-bit numbers, the even and the odd bytes of a vector separately. Every
// kSums16 pixels the sums are added to 32-bit sums. Interleaving stays within each 128-bit part.
//
// Vector has Type, Floats, kBytes and static functions named for what they do to each lane of the
// given number of bits (zip: interleave; low, high: halves of a lane), and member functions load
// and store.
#pragma once

#include "kernels/avgpool/avgpool.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kSums16 = 257;  // 257 * 255 is the largest 16-bit number

template <typename Vector>
struct Average {
  using Type = typename Vector::Type;

  // 32-bit sums of channels 4k, 4k + 2, 4k + 1 and 4k + 3, in each 128 bits.
  struct Sums32 {
    Type parts[4];
  };

  const AvgpoolWindow& window;

  static void widen(const Type& even, const Type& odd, Sums32& sums) {
    sums.parts[0] = Vector::add32(sums.parts[0], Vector::low16(even));
    sums.parts[1] = Vector::add32(sums.parts[1], Vector::high16(even));
    sums.parts[2] = Vector::add32(sums.parts[2], Vector::low16(odd));
    sums.parts[3] = Vector::add32(sums.parts[3], Vector::high16(odd));
  }

  Type rounded(const Type& sums) const {
    const auto shifted = Vector::to_floats(Vector::add32(sums, Vector::fill32(window.shift)));
    const auto rest = Vector::multiply(shifted, Vector::fill(window.reciprocal_rest));
    return Vector::rounded(Vector::fma(shifted, Vector::fill(window.reciprocal), rest));
  }

  // Converts four vectors of sums, in the order of their channels, to bytes.
  Type bytes(const Type& a, const Type& b, const Type& c, const Type& d) const {
    const Type offset = Vector::fill16(window.offset);
    return Vector::pack16(Vector::add16_saturating(Vector::pack32(rounded(a), rounded(b)), offset),
                          Vector::add16_saturating(Vector::pack32(rounded(c), rounded(d)), offset));
  }

  Type bytes_of_16(const Type& even, const Type& odd) const {
    const Type low = Vector::zip16_low(even, odd);
    const Type high = Vector::zip16_high(even, odd);
    const Type zero = Vector::zero();
    return bytes(Vector::zip16_low(low, zero), Vector::zip16_high(low, zero),
                 Vector::zip16_low(high, zero), Vector::zip16_high(high, zero));
  }

  Type bytes_of_32(const Sums32& sums) const {
    const Type a = Vector::zip32_low(sums.parts[0], sums.parts[2]);
    const Type b = Vector::zip32_low(sums.parts[1], sums.parts[3]);
    const Type c = Vector::zip32_high(sums.parts[0], sums.parts[2]);
    const Type d = Vector::zip32_high(sums.parts[1], sums.parts[3]);
    return bytes(Vector::zip64_low(a, b), Vector::zip64_high(a, b), Vector::zip64_low(c, d),
                 Vector::zip64_high(c, d));
  }

  // Divides a 16-bit sum by division.divisor. It rounds half up first; if a half then became odd,
  // it subtracts 1.
  template <bool kHalves>
  Type divided(const Type& sum) const {
    const auto& division = window.division;
    const Type dividend = Vector::add16(sum, Vector::fill16(division.addend));
    const Type quotient = Vector::shift_right16(
        Vector::multiply_high16(dividend, Vector::fill16(division.multiplier)), division.shift);
    if constexpr (!kHalves) {
      return quotient;
    }
    const Type half =
        Vector::equal16(Vector::multiply16(quotient, Vector::fill16(division.divisor)), dividend);
    const Type steps = Vector::add16(quotient, Vector::fill16(division.odd));
    const Type odd = Vector::bits_and(steps, Vector::fill16(1));
    return Vector::subtract16(quotient, Vector::bits_and(half, odd));
  }

  template <int kVectors>
  void add_row(const Vector& vector, const uint8_t* pixel, int64_t count, Type (&even)[kVectors],
               Type (&odd)[kVectors]) const {
    for (int64_t w = 0; w < count; ++w, pixel += window.column_stride) {
      for (int v = 0; v < kVectors; ++v) {
        const Type values = vector.load(pixel + v * Vector::kBytes);
        even[v] = Vector::add16(even[v], Vector::low8(values));
        odd[v] = Vector::add16(odd[v], Vector::high8(values));
      }
    }
  }

  // kVectors vectors of channels, for a window of at most kSums16 pixels.
  template <int kVectors>
  void run_small(const Vector& vector, const uint8_t* src, uint8_t* dst) const {
    Type even[kVectors], odd[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      even[v] = odd[v] = Vector::zero();
    }
    for (int64_t h = 0; h < window.rows; ++h) {
      add_row<kVectors>(vector, src + h * window.row_stride, window.columns, even, odd);
    }
    for (int v = 0; v < kVectors; ++v, dst += Vector::kBytes) {
      if (!window.division.possible) {
        vector.store(dst, bytes_of_16(even[v], odd[v]));
      } else if (window.division.halves) {
        vector.store(dst, Vector::zip8(divided<true>(even[v]), divided<true>(odd[v])));
      } else {
        vector.store(dst, Vector::zip8(divided<false>(even[v]), divided<false>(odd[v])));
      }
    }
  }

  // kVectors vectors of channels, for any window.
  template <int kVectors>
  void run_large(const Vector& vector, const uint8_t* src, uint8_t* dst) const {
    Type even[kVectors], odd[kVectors];
    Sums32 sums[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      even[v] = odd[v] = Vector::zero();
      sums[v] = {{even[v], even[v], even[v], even[v]}};
    }
    const auto widen_all = [&] {
      for (int v = 0; v < kVectors; ++v) {
        widen(even[v], odd[v], sums[v]);
        even[v] = odd[v] = Vector::zero();
      }
    };
    int64_t room = kSums16;
    for (int64_t h = 0; h < window.rows; ++h) {
      const uint8_t* row = src + h * window.row_stride;
      for (int64_t w = 0; w < window.columns;) {
        const int64_t left = window.columns - w;
        const int64_t count = left < room ? left : room;
        add_row<kVectors>(vector, row + w * window.column_stride, count, even, odd);
        w += count;
        room -= count;
        if (room == 0) {
          widen_all();
          room = kSums16;
        }
      }
    }
    widen_all();
    for (int v = 0; v < kVectors; ++v) {
      vector.store(dst + v * Vector::kBytes, bytes_of_32(sums[v]));
    }
  }

  template <int kVectors>
  void run(const Vector& vector, const uint8_t* src, uint8_t* dst) const {
    if (window.rows * window.columns <= kSums16) {
      run_small<kVectors>(vector, src, dst);
    } else {
      run_large<kVectors>(vector, src, dst);
    }
  }
};

// Covers one to two vectors' worth of channels with two vectors, which may overlap.
template <typename Vector>
void average_two(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst, int64_t channels) {
  const Average<Vector> average{window};
  average.template run<1>(Vector(), src, dst);
  if (const int64_t last = channels - Vector::kBytes; last > 0) {
    average.template run<1>(Vector(), src + last, dst + last);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
