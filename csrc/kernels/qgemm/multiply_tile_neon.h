// Innermost loop of qgemm for Armv8.0: 16-bit products, added in pairs to 32 bits. Adding products
// before widening could overflow by one. Included by the ISA source only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kTileRows = 8, kTileColumns = 12;
constexpr int kAtOnce = 4;  // rows, and columns
constexpr int64_t kPanelRun = 8 * kTileColumns;

// Computes kRows rows, of a tile of `width` rows, by four columns; each sum has four parts.
template <int kRows>
CPUACCEL_INLINE void multiply_four(const int8_t* rows, int64_t width, const int8_t* panel,
                                   int64_t runs, int32x4_t (&sums)[kRows]) {
  int32x4_t parts[kRows][kAtOnce];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows * kAtOnce; ++i) {
    parts[i / kAtOnce][i % kAtOnce] = vdupq_n_s32(0);
  }
  for (; runs > 0; --runs, rows += 8 * width, panel += kPanelRun) {
    int8x8_t a[kRows];
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      a[i] = vld1_s8(rows + 8 * i);
    }
    CPUACCEL_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int8x8_t b = vld1_s8(panel + 8 * j);
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows; ++i) {
        parts[i][j] = vpadalq_s16(parts[i][j], vmull_s8(a[i], b));
      }
    }
  }
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    sums[i] =
        vpaddq_s32(vpaddq_s32(parts[i][0], parts[i][1]), vpaddq_s32(parts[i][2], parts[i][3]));
  }
}

template <int kRows>
void multiply_rows(const QgemmTile& t, int64_t width, int64_t row) {
  const int8_t* rows = t.rows + (t.first_run * width + row) * 8;
  const int8_t* panel = t.panel + t.first_run * kPanelRun;
  for (int64_t column = 0; column < t.n; column += kAtOnce) {
    int32x4_t sums[kRows];
    multiply_four<kRows>(rows, width, panel + 8 * column, t.runs, sums);
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      int32_t* at = t.sums + (row + i) * kTileColumns + column;
      vst1q_s32(at, t.add ? vaddq_s32(sums[i], vld1q_s32(at)) : sums[i]);
    }
  }
}

// Lines are packed in pairs.
CPUACCEL_INLINE int64_t tile_width(int64_t m) { return (m + 1) / 2 * 2; }

void multiply_tiles(const QgemmTile& t) {
  const int64_t width = tile_width(t.m);
  int64_t row = 0;
  for (; row + kAtOnce <= t.m; row += kAtOnce) {
    multiply_rows<kAtOnce>(t, width, row);
  }
  if (row + 2 <= t.m) {
    multiply_rows<2>(t, width, row);
    row += 2;
  }
  if (row < t.m) {
    multiply_rows<1>(t, width, row);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
