// Average pooling of one window, for any vector class of bytes. Included by ISA sources only.
//
// Bytes are added as 16-bit numbers, the even and the odd bytes of a vector separately. Every
// kSums16 pixels the sums are added to 32-bit sums. Interleaving stays within each 128-bit part.
//
// V is a class of kernels/byte_vectors. Loads and stores are called on an instance, which may hold
// a mask.
#pragma once

#include "kernels/avgpool/avgpool.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kSums16 = 257;  // 257 * 255 is the largest 16-bit number

template <typename V>
struct Average {
  using Vector = typename V::Vector;
  using Words = typename V::Words;
  using Ints = typename V::Ints;

  // 32-bit sums of channels 4k, 4k + 2, 4k + 1 and 4k + 3, in each 128 bits.
  struct Sums32 {
    Ints parts[4];
  };

  const AvgpoolWindow& window;

  static void widen(const Words& even, const Words& odd, Sums32& sums) {
    sums.parts[0] = V::add32(sums.parts[0], V::even16(even));
    sums.parts[1] = V::add32(sums.parts[1], V::odd16(even));
    sums.parts[2] = V::add32(sums.parts[2], V::even16(odd));
    sums.parts[3] = V::add32(sums.parts[3], V::odd16(odd));
  }

  Ints rounded(const Ints& sums) const {
    const auto shifted = V::to_floats(V::add32(sums, V::set32(window.shift)));
    const auto rest = V::multiply(shifted, V::set_float(window.reciprocal_rest));
    return V::rounded(V::fma(shifted, V::set_float(window.reciprocal), rest));
  }

  // Converts four vectors of sums, in the order of their channels, to bytes.
  Vector bytes(const Ints& a, const Ints& b, const Ints& c, const Ints& d) const {
    const Words offset = V::set16(window.offset);
    return V::pack16(V::add16_saturating(V::pack32(rounded(a), rounded(b)), offset),
                     V::add16_saturating(V::pack32(rounded(c), rounded(d)), offset));
  }

  Vector bytes_of_16(const Words& even, const Words& odd) const {
    const Words low = V::zip16_low(even, odd);
    const Words high = V::zip16_high(even, odd);
    return bytes(V::widen_low16(low), V::widen_high16(low), V::widen_low16(high),
                 V::widen_high16(high));
  }

  Vector bytes_of_32(const Sums32& sums) const {
    const Ints a = V::zip32_low(sums.parts[0], sums.parts[2]);
    const Ints b = V::zip32_low(sums.parts[1], sums.parts[3]);
    const Ints c = V::zip32_high(sums.parts[0], sums.parts[2]);
    const Ints d = V::zip32_high(sums.parts[1], sums.parts[3]);
    return bytes(V::zip64_low(a, b), V::zip64_high(a, b), V::zip64_low(c, d), V::zip64_high(c, d));
  }

  // Divides a 16-bit sum by division.divisor. It rounds half up first; if a half then became odd,
  // it subtracts 1.
  template <bool kHalves>
  Words divided(const Words& sum) const {
    const auto& division = window.division;
    const Words dividend = V::add16(sum, V::set16(division.addend));
    const Words quotient = V::shift_right16(
        V::multiply_high16(dividend, V::set16(division.multiplier)), division.shift);
    if constexpr (!kHalves) {
      return quotient;
    }
    const Words half = V::equal16(V::multiply16(quotient, V::set16(division.divisor)), dividend);
    const Words steps = V::add16(quotient, V::set16(division.odd));
    const Words odd = V::bits_and16(steps, V::set16(1));
    return V::subtract16(quotient, V::bits_and16(half, odd));
  }

  template <int kVectors>
  void add_row(const V& vector, const uint8_t* pixel, int64_t count, Words (&even)[kVectors],
               Words (&odd)[kVectors]) const {
    for (int64_t w = 0; w < count; ++w, pixel += window.column_stride) {
      for (int v = 0; v < kVectors; ++v) {
        const Vector values = vector.load(pixel + v * V::kBytes);
        even[v] = V::add16(even[v], V::even8(values));
        odd[v] = V::add16(odd[v], V::odd8(values));
      }
    }
  }

  // kVectors vectors of channels, for a window of at most kSums16 pixels.
  template <int kVectors>
  void run_small(const V& vector, const uint8_t* src, uint8_t* dst) const {
    Words even[kVectors], odd[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      even[v] = odd[v] = V::zero16();
    }
    for (int64_t h = 0; h < window.rows; ++h) {
      add_row<kVectors>(vector, src + h * window.row_stride, window.columns, even, odd);
    }
    for (int v = 0; v < kVectors; ++v, dst += V::kBytes) {
      if (!window.division.possible) {
        vector.store(dst, bytes_of_16(even[v], odd[v]));
      } else if (window.division.halves) {
        vector.store(dst, V::join8(divided<true>(even[v]), divided<true>(odd[v])));
      } else {
        vector.store(dst, V::join8(divided<false>(even[v]), divided<false>(odd[v])));
      }
    }
  }

  // kVectors vectors of channels, for any window.
  template <int kVectors>
  void run_large(const V& vector, const uint8_t* src, uint8_t* dst) const {
    Words even[kVectors], odd[kVectors];
    Sums32 sums[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      even[v] = odd[v] = V::zero16();
      sums[v].parts[0] = sums[v].parts[1] = sums[v].parts[2] = sums[v].parts[3] = V::set32(0);
    }
    const auto widen_all = [&] {
      for (int v = 0; v < kVectors; ++v) {
        widen(even[v], odd[v], sums[v]);
        even[v] = odd[v] = V::zero16();
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
      vector.store(dst + v * V::kBytes, bytes_of_32(sums[v]));
    }
  }

  template <int kVectors>
  void run(const V& vector, const uint8_t* src, uint8_t* dst) const {
    if (window.rows * window.columns <= kSums16) {
      run_small<kVectors>(vector, src, dst);
    } else {
      run_large<kVectors>(vector, src, dst);
    }
  }
};

// Covers one to two vectors' worth of channels with two vectors, which may overlap.
template <typename V>
void average_two(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst, int64_t channels) {
  const Average<V> average{window};
  average.template run<1>(V(), src, dst);
  if (const int64_t last = channels - V::kBytes; last > 0) {
    average.template run<1>(V(), src + last, dst + last);
  }
}

// Fewer channels than the next wider class has bytes: by the first of these classes that they fill.
template <typename V, typename... Narrower>
void average_few(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst, int64_t channels) {
  if (channels >= V::kBytes) {
    average_two<V>(window, src, dst, channels);
  } else if constexpr (sizeof...(Narrower) > 0) {
    average_few<Narrower...>(window, src, dst, channels);
  } else {
    avgpool_ref(window, src, dst, channels);
  }
}

// All channels, for classes without masks. The last vector may overlap the one before.
template <typename V, typename... Narrower>
void average_channels(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                      int64_t channels) {
  if (channels < V::kBytes) {
    return average_few<Narrower...>(window, src, dst, channels);
  }
  const Average<V> average{window};
  int64_t c = 0;
  for (; c + 4 * V::kBytes <= channels; c += 4 * V::kBytes) {
    average.template run<4>(V(), src + c, dst + c);
  }
  for (; c < channels; c += V::kBytes) {
    const int64_t first = c + V::kBytes <= channels ? c : channels - V::kBytes;
    average.template run<1>(V(), src + first, dst + first);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
