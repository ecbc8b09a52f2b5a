// Innermost loop of qgemm with SMMLA: two rows times two columns, eight k at a time. Included by
// the ISA source only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kTileRows = 8, kTileColumns = 12;
constexpr int64_t kPanelRun = 8 * kTileColumns;

CPUACCEL_INLINE void accumulate_pairs(int32x4_t& sum, int8x16_t a, int8x16_t b) {
  asm("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
}

// Computes run `run` from these pointers on.
template <int kPairs, int kColumnPairs>
CPUACCEL_INLINE void run_step(int32x4_t (&sums)[kPairs][kColumnPairs], const int8_t*& rows,
                              const int8_t*& panel, int run) {
  int8x16_t a[kPairs];
  CPUACCEL_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    a[i] = vld1q_s8(rows + run * 16 * kPairs + 16 * i);
  }
  CPUACCEL_UNROLL
  for (int j = 0; j < kColumnPairs; ++j) {
    const int8x16_t b = vld1q_s8(panel + run * kPanelRun + 16 * j);
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      accumulate_pairs(sums[i][j], a[i], b);
    }
  }
  // Keeps the compiler from loading several runs ahead, which would spill the sums.
  asm volatile("" : "+r"(panel), "+r"(rows));
}

template <int kPairs, int kColumnPairs>
CPUACCEL_INLINE void clear(int32x4_t (&sums)[kPairs][kColumnPairs]) {
  CPUACCEL_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumnPairs; ++j) {
      sums[i][j] = vdupq_n_s32(0);
    }
  }
}

// Each sum vector holds two rows of two columns.
template <bool kAdd, int kPairs, int kColumnPairs>
CPUACCEL_INLINE void store_pairs(const int32x4_t (&sums)[kPairs][kColumnPairs], int32_t* to,
                                 int64_t m) {
  CPUACCEL_UNROLL
  for (int row = 0; row < 2 * kPairs; ++row) {
    if (row == 2 * kPairs - 1 && row == m) {
      return;
    }
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumnPairs; j += 2) {
      const int64x2_t low = vreinterpretq_s64_s32(sums[row / 2][j]);
      const int64x2_t high = vreinterpretq_s64_s32(sums[row / 2][j + 1]);
      const int32x4_t sum =
          vreinterpretq_s32_s64(row % 2 == 0 ? vzip1q_s64(low, high) : vzip2q_s64(low, high));
      int32_t* at = to + row * kTileColumns + 2 * j;
      vst1q_s32(at, kAdd ? vaddq_s32(sum, vld1q_s32(at)) : sum);
    }
  }
}

// kVectors: vectors of four columns.
template <int kPairs, int kVectors>
void matrix_tile(const QgemmTile& t) {
  constexpr int kColumnPairs = 2 * kVectors;
  // With few sums, odd runs have separate sums to hide the latency.
  constexpr bool kApart = kPairs == 1;
  int32x4_t sums[kPairs][kColumnPairs], odd[kPairs][kColumnPairs];
  clear(sums);
  clear(odd);
  const int8_t* rows = t.rows + t.first_run * 16 * kPairs;
  const int8_t* panel = t.panel + t.first_run * kPanelRun;
  for (int64_t left = t.runs / 2; left > 0; --left) {
    run_step(sums, rows, panel, 0);
    run_step(kApart ? odd : sums, rows, panel, 1);
    rows += 2 * 16 * kPairs;
    panel += 2 * kPanelRun;
  }
  if (t.runs % 2 != 0) {
    run_step(sums, rows, panel, 0);
  }
  if constexpr (kApart) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumnPairs; ++j) {
      sums[0][j] = vaddq_s32(sums[0][j], odd[0][j]);
    }
  }
  t.add ? store_pairs<true>(sums, t.sums, t.m) : store_pairs<false>(sums, t.sums, t.m);
}

template <int kVectors>
void matrix_tiles_of(const QgemmTile& t) {
  switch ((t.m + 1) / 2) {
    case 1:
      return matrix_tile<1, kVectors>(t);
    case 2:
      return matrix_tile<2, kVectors>(t);
    case 3:
      return matrix_tile<3, kVectors>(t);
    default:
      return matrix_tile<4, kVectors>(t);
  }
}

void matrix_tiles(const QgemmTile& t) {
  if (t.n > 8) {
    matrix_tiles_of<3>(t);
  } else {
    t.n > 4 ? matrix_tiles_of<2>(t) : matrix_tiles_of<1>(t);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
