// GemmPixelsCall for any vector class: a matrix product whose rows of A are given by pointers
// (direct convolution), with all sums in registers. Included by ISA sources only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Pointers that do not fit the registers are loaded again in each step: two thirds of the loads
// that a step has time for are unused.
//
// A line of `next` is prefetched in each step: a panel that comes from L3 would otherwise stall the
// loop.
template <typename V, int kRows, int kVectors>
void pixels_tile(const GemmPixelsCall& call, int64_t row, std::span<const char> next) {
  constexpr int64_t kLine = 64;
  const int64_t lines = static_cast<int64_t>(next.size()) / kLine;
  const char* ahead = next.data();
  using Vector = typename V::Vector;
  const auto mask = V::mask(call.n - (kVectors - 1) * V::kLanes);
  float* c = call.c + row * call.c_stride;
  Vector sums[kRows][kVectors];
  CPUACCEL_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    const bool last = j == kVectors - 1;
    Vector start = V::zero();
    if (!call.add && call.bias != nullptr) {
      const float* from = call.bias + j * V::kLanes;
      start = last ? V::load(from, mask) : V::load(from);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const float* from = c + i * call.c_stride + j * V::kLanes;
      sums[i][j] = !call.add ? start : last ? V::load(from, mask) : V::load(from);
    }
  }
  const float* src[kRows];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    src[i] = call.src[row + i];
  }
  const float* panel = call.panel;
  for (int64_t k = 0; k < call.k; ++k, panel += V::kVectors * V::kLanes) {
    const int64_t offset = call.offsets[k];
    __builtin_prefetch(ahead, 0, 2);
    ahead += k < lines ? kLine : 0;
    Vector b[kVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      b[j] = V::load(panel + j * V::kLanes);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto value = V::broadcast(src[i] + offset);
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        V::accumulate(sums[i][j], value, b[j]);
      }
    }
  }
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * call.c_stride + j * V::kLanes;
      if (j == kVectors - 1) {
        V::store(to, sums[i][j], mask);
      } else {
        V::store(to, sums[i][j]);
      }
    }
  }
}

using PixelsTile = void(const GemmPixelsCall& call, int64_t row, std::span<const char> next);

template <typename V, int kVectors, int kRows>
CPUACCEL_INLINE PixelsTile* pixels_rows(int64_t rows) {
  if constexpr (kRows == 1) {
    return pixels_tile<V, 1, kVectors>;
  } else {
    return rows == kRows ? pixels_tile<V, kRows, kVectors>
                         : pixels_rows<V, kVectors, kRows - 1>(rows);
  }
}

template <typename V, int kVectors>
CPUACCEL_INLINE PixelsTile* pixels_function(int64_t columns, int64_t rows) {
  if constexpr (kVectors > 1) {
    if (columns <= (kVectors - 1) * V::kLanes) {
      return pixels_function<V, kVectors - 1>(columns, rows);
    }
  }
  return pixels_rows<V, kVectors, V::kPixels>(rows);
}

// Splits rows evenly, as tiles_of in tile.h does.
template <typename V>
void pixels(const GemmPixelsCall& call) {
  const int64_t count = (call.m + V::kPixels - 1) / V::kPixels;
  const int64_t least = call.m / count, larger = call.m % count;
  const auto function = [n = call.n](int64_t rows) {
    return pixels_function<V, V::kVectors>(n, rows);
  };
  PixelsTile* const small = function(least);
  PixelsTile* const large = larger == 0 ? small : function(least + 1);
  int64_t row = 0;
  std::span<const char> next = call.next;
  for (int64_t i = 0; i < count; ++i) {
    const auto now = next.first(std::min(next.size(), static_cast<size_t>(call.k) * 64));
    (i < larger ? large : small)(call, row, now);
    next = next.subspan(now.size());
    row += i < larger ? least + 1 : least;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
