// Innermost loop of qgemm on x86: a run of a row, in every lane, times a run of each of kLanes
// columns. D is a class of kernels/dot4. Included by x86's sources only.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/qgemm/lines_x86.h"
#include "kernels/spread_prefetch.h"

namespace cpuaccel::kernels {
namespace {

// Columns of a panel: three vectors.
constexpr int kPanelVectors = 3;

template <typename D>
constexpr int64_t kPanelColumns = kPanelVectors * D::kLanes;

template <typename D>
using RunsOf = std::conditional_t<D::kParts == 1, ByteRuns, WordRuns>;

template <typename D>
CPUACCEL_INLINE void accumulate_dots(typename D::Int& sum, typename D::Int a, typename D::Int b) {
  if constexpr (requires { D::accumulate(sum, a, b); }) {
    D::accumulate(sum, a, b);
  } else {
    sum = D::dot(sum, a, b);
  }
}

// One run of kRows rows times kVectors vectors of columns. With parts, which are made from each
// vector of weights, the rows are loaded again for each vector: there are few registers.
template <typename D, int kRows, int kVectors>
CPUACCEL_INLINE void run_step(typename D::Int (&sums)[kRows][kVectors], const uint8_t* rows,
                              const int8_t* panel) {
  using Int = typename D::Int;
  if constexpr (D::kParts == 1) {
    Int b[kVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      b[j] = D::load(panel + j * D::kBytes);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Int a = D::broadcast4(rows + 4 * i);
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        accumulate_dots<D>(sums[i][j], a, b[j]);
      }
    }
  } else {
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      Int parts[D::kParts];
      D::expand_weights(D::load(panel + j * D::kBytes), parts);
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows; ++i) {
        CPUACCEL_UNROLL
        for (int part = 0; part < D::kParts; ++part) {
          accumulate_dots<D>(sums[i][j], D::broadcast4(rows + 4 * (D::kParts * i + part)),
                             parts[part]);
        }
      }
    }
  }
}

template <typename D, int kRows, int kVectors, bool kAsks>
void dot_tile(const QgemmTile& t) {
  using Int = typename D::Int;
  constexpr int64_t kRowsRun = RunsOf<D>::kRunBytes * kRows, kPanelRun = 4 * kPanelColumns<D>;
  // With few rows, several runs have separate sums to hide the latency.
  constexpr int kRuns = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  Int sums[kRuns][kRows][kVectors];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRuns * kRows * kVectors; ++i) {
    sums[i / kVectors / kRows][i / kVectors % kRows][i % kVectors] = D::zero();
  }
  const auto* rows = reinterpret_cast<const uint8_t*>(t.rows) + t.first_run * kRowsRun;
  const int8_t* panel = t.panel + t.first_run * kPanelRun;
  SpreadPrefetch ahead;
  if constexpr (kAsks) {
    ahead = SpreadPrefetchLoops(t.next, t.next_bytes, t.runs / kRuns, 1).next();
  }
  for (int64_t left = t.runs / kRuns; left > 0; --left) {
    CPUACCEL_UNROLL
    for (int run = 0; run < kRuns; ++run) {
      run_step<D>(sums[run], rows + run * kRowsRun, panel + run * kPanelRun);
    }
    if constexpr (kAsks) {
      ahead.ask();
    }
    rows += kRuns * kRowsRun;
    panel += kRuns * kPanelRun;
    // Keeps the compiler from loading several runs ahead, which would spill the sums.
    asm volatile("" : "+r"(panel), "+r"(rows));
  }
  if constexpr (kRuns > 1) {
    for (int64_t left = t.runs % kRuns; left > 0; --left) {
      run_step<D>(sums[0], rows, panel);
      rows += kRowsRun;
      panel += kPanelRun;
    }
    CPUACCEL_UNROLL
    for (int i = kRows * kVectors; i < kRuns * kRows * kVectors; ++i) {
      Int& first = sums[0][i / kVectors % kRows][i % kVectors];
      first = D::add(first, sums[i / kVectors / kRows][i / kVectors % kRows][i % kVectors]);
    }
  }
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    if (i == t.m) {
      return;
    }
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      int32_t* to = t.sums + i * kPanelColumns<D> + j * D::kLanes;
      D::store(to, t.add ? D::add(sums[0][i][j], D::load(to)) : sums[0][i][j]);
    }
  }
}

// The smallest instantiated number of rows that holds m: 1, 2, 4 or 8.
CPUACCEL_INLINE int64_t tile_width(int64_t m) { return m <= 2 ? m : m <= 4 ? 4 : 8; }

template <typename D, int kRows, int kVectors>
void dot_tile_of(const QgemmTile& t) {
  t.next_bytes > 0 ? dot_tile<D, kRows, kVectors, true>(t) : dot_tile<D, kRows, kVectors, false>(t);
}

template <typename D, int kMostRows, int kVectors>
void dot_tiles_of(const QgemmTile& t) {
  switch (tile_width(t.m)) {
    case 1:
      return dot_tile_of<D, 1, kVectors>(t);
    case 2:
      return dot_tile_of<D, 2, kVectors>(t);
    case 4:
      return dot_tile_of<D, 4, kVectors>(t);
    default:
      if constexpr (kMostRows == 8) {
        return dot_tile_of<D, 8, kVectors>(t);
      }
  }
}

template <typename D, int kMostRows>
void dot_tiles(const QgemmTile& t) {
  if (t.n > 2 * D::kLanes) {
    dot_tiles_of<D, kMostRows, 3>(t);
  } else if (t.n > D::kLanes) {
    dot_tiles_of<D, kMostRows, 2>(t);
  } else {
    dot_tiles_of<D, kMostRows, 1>(t);
  }
}

template <typename D>
void pack_rows(const QgemmLines& lines) {
  lines.count <= 2 ? few_lines<RunsOf<D>>(lines)
                   : lines_of_4<RunsOf<D>>(lines, tile_width(lines.count));
}

template <typename D>
void pack_columns(const QgemmLines& lines) {
  lines_of_4<ByteRuns>(lines, kPanelColumns<D>);
}

}  // namespace
}  // namespace cpuaccel::kernels
