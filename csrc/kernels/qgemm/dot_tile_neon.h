// Innermost loop of qgemm with SDOT: four bytes of a row times four bytes of each of four columns.
// Included by the ISA source only.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kTileRows = 8, kTileColumns = 12;
constexpr int64_t kPanelRun = 4 * kTileColumns;

template <int kLane>
CPUACCEL_INLINE void accumulate_dots(int32x4_t& sum, int8x16_t b, int8x16_t a) {
  asm("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(b), "w"(a), "i"(kLane));
}

// Computes one run. Its dwords start at dword kDword of `a`; the row kRow is next.
template <int kDword, int kRow, int kRows, int kVectors, int kColumnVectors>
CPUACCEL_INLINE void run_step(int32x4_t (&sums)[kRows][kColumnVectors],
                              const int8x16_t (&a)[kVectors],
                              const int8x16_t (&b)[kColumnVectors]) {
  if constexpr (kRow < kRows) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumnVectors; ++j) {
      accumulate_dots<(kDword + kRow) % 4>(sums[kRow][j], b[j], a[(kDword + kRow) / 4]);
    }
    run_step<kDword, kRow + 1>(sums, a, b);
  }
}

// Computes runs [kRun, kEnd), which `a` holds.
template <int kRun, int kEnd, int kRuns, int kRows, int kVectors, int kColumnVectors>
CPUACCEL_INLINE void runs_step(int32x4_t (&sums)[kRuns][kRows][kColumnVectors],
                               const int8x16_t (&a)[kVectors], const int8_t* panel) {
  if constexpr (kRun < kEnd) {
    int8x16_t b[kColumnVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumnVectors; ++j) {
      b[j] = vld1q_s8(panel + kRun * kPanelRun + 16 * j);
    }
    run_step<kRun * kRows, 0>(sums[kRun], a, b);
    runs_step<kRun + 1, kEnd>(sums, a, panel);
  }
}

template <bool kAdd, int kRows, int kColumnVectors>
CPUACCEL_INLINE void store_rows(const int32x4_t (&sums)[kRows][kColumnVectors], int32_t* to,
                                int64_t m) {
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    if (i == m) {
      return;
    }
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumnVectors; ++j) {
      int32_t* at = to + i * kTileColumns + 4 * j;
      vst1q_s32(at, kAdd ? vaddq_s32(sums[i][j], vld1q_s32(at)) : sums[i][j]);
    }
  }
}

template <int kRows, int kColumnVectors>
void dot_tile(const QgemmTile& t) {
  // With few rows, the runs of a vector have separate sums to hide the latency.
  constexpr int kRuns = kRows < 4 ? 4 / kRows : 1;
  constexpr int kVectors = kRows < 4 ? 1 : kRows / 4;
  int32x4_t sums[kRuns][kRows][kColumnVectors];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRuns * kRows * kColumnVectors; ++i) {
    sums[i / kColumnVectors / kRows][i / kColumnVectors % kRows][i % kColumnVectors] =
        vdupq_n_s32(0);
  }
  const int8_t* rows = t.rows + t.first_run * 4 * kRows;
  const int8_t* panel = t.panel + t.first_run * kPanelRun;
  int8x16_t a[kVectors];
  for (int64_t left = t.runs / kRuns; left > 0; --left) {
    CPUACCEL_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      a[i] = vld1q_s8(rows + 16 * i);
    }
    runs_step<0, kRuns>(sums, a, panel);
    rows += 16 * kVectors;
    panel += kRuns * kPanelRun;
    // Keeps the compiler from loading several runs ahead, which would spill the sums.
    asm volatile("" : "+r"(panel), "+r"(rows));
  }
  if constexpr (kRuns > 1) {
    for (int64_t left = t.runs % kRuns; left > 0; --left) {
      int8_t dwords[16] = {};
      std::memcpy(dwords, rows, 4 * kRows);
      a[0] = vld1q_s8(dwords);
      runs_step<0, 1>(sums, a, panel);
      rows += 4 * kRows;
      panel += kPanelRun;
    }
    CPUACCEL_UNROLL
    for (int i = kRows * kColumnVectors; i < kRuns * kRows * kColumnVectors; ++i) {
      const int row = i / kColumnVectors % kRows, j = i % kColumnVectors;
      sums[0][row][j] = vaddq_s32(sums[0][row][j], sums[i / kColumnVectors / kRows][row][j]);
    }
  }
  t.add ? store_rows<true>(sums[0], t.sums, t.m) : store_rows<false>(sums[0], t.sums, t.m);
}

// The smallest instantiated number of rows that holds m: 1, 2, 4 or 8.
CPUACCEL_INLINE int64_t tile_width(int64_t m) { return m <= 2 ? m : m <= 4 ? 4 : 8; }

template <int kColumnVectors>
void dot_tiles_of(const QgemmTile& t) {
  switch (tile_width(t.m)) {
    case 1:
      return dot_tile<1, kColumnVectors>(t);
    case 2:
      return dot_tile<2, kColumnVectors>(t);
    case 4:
      return dot_tile<4, kColumnVectors>(t);
    default:
      return dot_tile<8, kColumnVectors>(t);
  }
}

void dot_tiles(const QgemmTile& t) {
  if (t.n > 8) {
    dot_tiles_of<3>(t);
  } else {
    t.n > 4 ? dot_tiles_of<2>(t) : dot_tiles_of<1>(t);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
