// Products of tiles_neon.h by dot products of four bytes; few_rows_neon.h describes D. Included by
// ISA sources.
#pragma once

#include "kernels/qgemm_wq/one_row_neon.h"
#include "kernels/qgemm_wq/tiles_neon.h"

namespace cpuaccel::kernels {
namespace {

// A vector of sums is a row by four columns.
template <typename D>
struct DotRows : InRows {
  static constexpr int kUnits = kTileRows, kVectors = 2;
  static constexpr int kUnrolled = 0;  // GCC 12 would move sums between registers

  CPUACCEL_INLINE static void unpack(const Halves (&halves)[2], int8_t* to) {
    vst1q_s8(to, halves[0].low);
    vst1q_s8(to + 16, halves[1].low);
    vst1q_s8(to + 32, halves[0].high);
    vst1q_s8(to + 48, halves[1].high);
  }

  CPUACCEL_INLINE static void step(int32x4_t (&sums)[kUnits][kVectors], const int8_t* rows,
                                   const int8_t* codes) {
    int8x16_t of_rows[kTileRows / 2];
    CPUACCEL_UNROLL
    for (int i = 0; i < kTileRows / 2; ++i) {
      of_rows[i] = vld1q_s8(rows + 16 * i);
    }
    half_step<0, 0>(sums, of_rows, vld1q_s8(codes), vld1q_s8(codes + 16));
    half_step<1, 0>(sums, of_rows, vld1q_s8(codes + 32), vld1q_s8(codes + 48));
  }

  static constexpr int64_t offset(int64_t c, int64_t i, int64_t j) {
    return i * kWqColumns + c * kBlock + 4 * j;
  }
  CPUACCEL_INLINE static void of_rows(const float* row_sums, float32x4_t (&to)[kUnits]) {
    CPUACCEL_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      to[i] = vdupq_n_f32(row_sums[i]);
    }
  }
  CPUACCEL_INLINE static void to_rows(float*) {}

 private:
  // Two rows from number kRow on, and the ones after them.
  template <int kHalf, int kRow>
  CPUACCEL_INLINE static void half_step(int32x4_t (&sums)[kUnits][kVectors],
                                        const int8x16_t (&rows)[kTileRows / 2], int8x16_t first,
                                        int8x16_t second) {
    if constexpr (kRow < kTileRows) {
      D::template dot<kHalf>(sums[kRow][0], first, rows[kRow / 2]);
      D::template dot<kHalf>(sums[kRow][1], second, rows[kRow / 2]);
      D::template dot<kHalf + 2>(sums[kRow + 1][0], first, rows[kRow / 2]);
      D::template dot<kHalf + 2>(sums[kRow + 1][1], second, rows[kRow / 2]);
      half_step<kHalf, kRow + 2>(sums, rows, first, second);
    }
  }
};

template <typename D>
CPUACCEL_INLINE void dot_tiles(const QgemmWqTile& t) {
  if (t.width == kTileRows) {
    t.format->bits == 4 ? tiles_of<DotRows<D>, 4>(t) : tiles_of<DotRows<D>, 8>(t);
  } else {
    t.format->bits == 4 ? rows_of<D, 4>(t) : rows_of<D, 8>(t);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
