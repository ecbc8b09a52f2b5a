// Splits the rows of a DotCall into tiles. Included by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/prefetch.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename Dot, int kRows>
CPUACCEL_INLINE void dot_some(const DotCall& call, int64_t row, int64_t rows,
                              PrefetchWalk& prefetch) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      dot_some<Dot, kRows - 1>(call, row, rows, prefetch);
      return;
    }
  }
  Dot::template rows<kRows>(call, row, prefetch);
}

// Splits evenly, as in tile.h. Dot::rows<kRows> computes all columns; its tiles are Dot::Tiles.
template <typename Dot>
void dot_evenly(const DotCall& call) {
  using Tiles = typename Dot::Tiles;
  constexpr int kColumns = Tiles::template kColumns<Tiles::kRows>;
  const int64_t count = (call.m + Tiles::kRows - 1) / Tiles::kRows;
  const int64_t least = call.m / count;
  PrefetchWalk prefetch(call.next, count * ((call.n + kColumns - 1) / kColumns));
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rows = i < call.m % count ? least + 1 : least;
    dot_some<Dot, Tiles::kRows>(call, row, rows, prefetch);
    row += rows;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
