// What the end of a group adds to the sums, on a vector class V of avx2.h. Included by ISA sources.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_wq/weights.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Of kLanes columns: weight = scale * (code - zero) + real.
template <typename V>
struct Zeros {
  typename V::Vector scale, zero, real;
};

// kOffset: what was added to the codes that are multiplied.
template <typename V, int kBits, int kOffset>
CPUACCEL_INLINE Zeros<V> zeros_of(const std::byte* scales, const WqFormat& format,
                                  const WqLayout& layout, int64_t column) {
  constexpr int kCenter = kBits == 4 ? 8 : 0;
  const std::byte* zeros = scales + layout.scale_bytes;
  Zeros<V> result{V::load_scales(scales, column, format.scales), V::set1(float{kCenter + kOffset}),
                  V::set1(0.0f)};
  if (format.zeros == WqZeros::integers) {
    result.zero = V::add(V::load_integers(zeros + column), V::set1(float{kOffset}));
  } else if (format.zeros == WqZeros::reals) {
    result.real = V::load_scales(zeros, column, format.scales);
  }
  return result;
}

// Whether the sums of x count at all.
template <int kBits, int kOffset>
CPUACCEL_INLINE bool is_corrected(const WqFormat& format) {
  return (kBits == 4 ? 8 : 0) + kOffset != 0 || format.zeros != WqZeros::none;
}

// `before` plus the group's part: sum is that of x * code, x that of x.
template <typename V>
CPUACCEL_INLINE typename V::Vector with_group(typename V::Vector before, typename V::Vector sum,
                                              float x, const Zeros<V>& zeros, bool corrected) {
  if (corrected) {
    const auto of_rows = V::set1(x);
    sum = V::minus_product(sum, zeros.zero, of_rows);
    before = V::fma(zeros.real, of_rows, before);
  }
  return V::fma(zeros.scale, sum, before);
}

}  // namespace
}  // namespace cpuaccel::kernels
