// The transforms of winograd for any vector class of floats. Included by ISA sources.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/inline.h"
#include "kernels/winograd/winograd.h"

namespace cpuaccel::kernels {
namespace {

// a + factor * b.
template <typename V>
CPUACCEL_INLINE typename V::Vector plus(typename V::Vector a, float factor, typename V::Vector b) {
  return V::fma(V::set1(factor), b, a);
}

// F(2, 3): rows of B' and A' times a column d, whose elements are `step` apart.
template <typename V>
struct Transform2 {
  static constexpr int64_t kTile = 2, kSize = 4;
  using Vector = typename V::Vector;

  CPUACCEL_INLINE static void src(const Vector* d, int64_t step, Vector* to, int64_t to_step) {
    const Vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    to[0] = plus<V>(d0, -1, d2);
    to[to_step] = V::add(d1, d2);
    to[2 * to_step] = plus<V>(d2, -1, d1);
    to[3 * to_step] = plus<V>(d1, -1, d3);
  }
  CPUACCEL_INLINE static void dst(const Vector* m, int64_t step, Vector* to, int64_t to_step) {
    to[0] = V::add(V::add(m[0], m[step]), m[2 * step]);
    to[to_step] = plus<V>(plus<V>(m[step], -1, m[2 * step]), -1, m[3 * step]);
  }
};

// F(4, 3).
template <typename V>
struct Transform4 {
  static constexpr int64_t kTile = 4, kSize = 6;
  using Vector = typename V::Vector;

  CPUACCEL_INLINE static void src(const Vector* d, int64_t step, Vector* to, int64_t to_step) {
    const Vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step],
                 d5 = d[5 * step];
    const Vector even = plus<V>(d4, -4, d2), odd = plus<V>(d3, -4, d1);
    const Vector outer = plus<V>(d4, -1, d2), inner = plus<V>(d3, -1, d1);
    to[0] = plus<V>(plus<V>(d4, -5, d2), 4, d0);
    to[to_step] = V::add(even, odd);
    to[2 * to_step] = plus<V>(even, -1, odd);
    to[3 * to_step] = plus<V>(outer, 2, inner);
    to[4 * to_step] = plus<V>(outer, -2, inner);
    to[5 * to_step] = plus<V>(plus<V>(d5, -5, d3), 4, d1);
  }
  CPUACCEL_INLINE static void dst(const Vector* m, int64_t step, Vector* to, int64_t to_step) {
    const Vector sum = V::add(m[step], m[2 * step]), difference = plus<V>(m[step], -1, m[2 * step]);
    const Vector far_sum = V::add(m[3 * step], m[4 * step]),
                 far_difference = plus<V>(m[3 * step], -1, m[4 * step]);
    to[0] = V::add(V::add(m[0], sum), far_sum);
    to[to_step] = plus<V>(difference, 2, far_difference);
    to[2 * to_step] = plus<V>(sum, 4, far_sum);
    to[3 * to_step] = V::add(plus<V>(difference, 8, far_difference), m[5 * step]);
  }
};

// Reads and writes vectors of channels.
template <typename V>
struct WholeVectors {
  using Vector = typename V::Vector;
  CPUACCEL_INLINE Vector load(const float* src) const { return V::load(src); }
  CPUACCEL_INLINE void store(float* dst, Vector v) const { V::store(dst, v); }
};
// The same for the last channels, which are less than a vector.
template <typename V>
struct PartialVectors {
  using Vector = typename V::Vector;
  decltype(V::mask(0)) lanes;
  CPUACCEL_INLINE Vector load(const float* src) const { return V::load(src, lanes); }
  CPUACCEL_INLINE void store(float* dst, Vector v) const { V::store(dst, v, lanes); }
};

template <typename V, typename T, typename Access>
CPUACCEL_INLINE void src_channels(const WinogradSrcTile& tile, int64_t c, Access access) {
  constexpr int64_t kSize = T::kSize;
  typename V::Vector columns[kSize * kSize], column[kSize], result[kSize];
  for (int64_t x = 0; x < kSize; ++x) {
    for (int64_t y = 0; y < kSize; ++y) {
      const float* const pixel = tile.pixels[static_cast<size_t>(y * kSize + x)];
      column[y] = pixel != nullptr ? access.load(pixel + c) : V::set1(0);
    }
    T::src(column, 1, columns + x, kSize);
  }
  for (int64_t y = 0; y < kSize; ++y) {
    T::src(columns + y * kSize, 1, result, 1);
    for (int64_t x = 0; x < kSize; ++x) {
      access.store(tile.transformed + (y * kSize + x) * tile.stride + c, result[x]);
    }
  }
}

template <typename V, typename T, typename Access>
CPUACCEL_INLINE void dst_channels(const WinogradDstTile& tile, int64_t c, Access access) {
  constexpr int64_t kSize = T::kSize, kTile = T::kTile;
  const auto lowest = V::set1(tile.lowest);
  typename V::Vector columns[kTile * kSize], column[kSize], result[kTile];
  for (int64_t x = 0; x < kSize; ++x) {
    for (int64_t y = 0; y < kSize; ++y) {
      column[y] = access.load(tile.products + (y * kSize + x) * tile.stride + c);
    }
    T::dst(column, 1, columns + x, kSize);
  }
  const auto bias = tile.bias != nullptr ? access.load(tile.bias + c) : V::set1(0);
  for (int64_t y = 0; y < tile.rows; ++y) {
    T::dst(columns + y * kSize, 1, result, 1);
    for (int64_t x = 0; x < tile.columns; ++x) {
      auto value = V::add(result[x], bias);
      if (tile.addend != nullptr) {
        const float* const addend = tile.addend + y * tile.addend_row + x * tile.addend_pixel;
        value = V::add(value, access.load(addend + c));
      }
      access.store(tile.dst + y * tile.dst_row + x * tile.dst_pixel + c, V::max(lowest, value));
    }
  }
}

template <typename V, typename T>
void transform_src(const WinogradSrcTile& tile) {
  int64_t c = 0;
  for (; c + V::kLanes <= tile.channels; c += V::kLanes) {
    src_channels<V, T>(tile, c, WholeVectors<V>{});
  }
  if (c < tile.channels) {
    src_channels<V, T>(tile, c, PartialVectors<V>{V::mask(tile.channels - c)});
  }
}

template <typename V, typename T>
void transform_dst(const WinogradDstTile& tile) {
  int64_t c = 0;
  for (; c + V::kLanes <= tile.channels; c += V::kLanes) {
    dst_channels<V, T>(tile, c, WholeVectors<V>{});
  }
  if (c < tile.channels) {
    dst_channels<V, T>(tile, c, PartialVectors<V>{V::mask(tile.channels - c)});
  }
}

template <typename V>
inline constexpr WinogradKernels kWinogradKernels{
    {transform_src<V, Transform2<V>>, transform_dst<V, Transform2<V>>},
    {transform_src<V, Transform4<V>>, transform_dst<V, Transform4<V>>}};

}  // namespace
}  // namespace cpuaccel::kernels
