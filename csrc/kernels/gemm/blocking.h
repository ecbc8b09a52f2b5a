// Block sizes of gemm, in elements. Those of k depend on the shape alone, because sums must not
// depend on the number of threads.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/pack.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

constexpr int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }
constexpr int64_t at_least(int64_t value, int64_t limit) { return value < limit ? limit : value; }

// The size of parts of `total`: as few parts as possible with none above `largest`, all equal but
// for rounding up to `multiple`.
constexpr int64_t even_part(int64_t total, int64_t largest, int64_t multiple) {
  const int64_t parts = divide_up(total, largest);
  return round_up(divide_up(total, parts), multiple);
}

// Rows of a panel: 16 KiB of it (nr = 16) stay in L1 while the rows of A pass by. `most` may be
// larger if L2 is fast enough. A multiple of 32 rows, because 16 pairs of bf16 may be taken at
// once.
constexpr int64_t gemm_kc(int64_t K, int64_t most = kGemmKc) { return even_part(K, most, 32); }
static_assert(gemm_kc(1000) <= kGemmMaxKc);

// Rows of A in a block: mc * kc floats, 70 to 150 KiB and three times that with the longest panels,
// stay in L2 while the panels pass by, beside the results and the panels that come next. Panels
// that each block packs itself do not lie in L2 before: the block has twice the rows.
constexpr int64_t gemm_mc(int64_t M, int64_t mr, bool packs_fast = false) {
  return even_part(M, (packs_fast ? 24 : 12) * mr, mr);
}

// The part of B that is packed at a time: nc columns, and all of K unless K is in the hundred
// thousands.
inline constexpr int64_t kPackedFloats = (8 << 20) / 4;
struct GemmPackSize {
  int64_t k, n;
};
constexpr GemmPackSize gemm_pack_size(int64_t N, int64_t K, int64_t nr) {
  const int64_t kc = gemm_kc(K);
  const int64_t k = at_most(round_up(K, kc), kPackedFloats / nr / kc * kc);
  return {k, even_part(N, kPackedFloats / k / nr * nr, nr)};
}

// Columns of a piece of work. A block of A is read for up to `most` columns. With few blocks,
// pieces have fewer columns, so that there are enough pieces for the threads.
constexpr int64_t gemm_columns(int64_t N, int64_t blocks, int64_t most, int64_t nr,
                               int64_t threads) {
  const int64_t pieces = threads == 1 ? 1 : 4 * threads;
  const int64_t shared = N / divide_up(pieces, blocks);
  return even_part(N, at_most(at_least(round_up(shared, nr), 64), most), nr);
}

// Numbers of parts of rows and of columns, cut at tiles as evenly as possible.
struct GemmParts {
  int64_t rows, columns;
};

// At least `blocks` parts of rows, chosen so that the busiest thread has the fewest tiles if each
// thread gets as many parts as the others. `row_tiles` of mr rows, N columns in tiles of nr;
// `packed` if the columns are packed already.
constexpr GemmParts gemm_parts(int64_t row_tiles, int64_t blocks, int64_t N, int64_t most,
                               int64_t nr, int64_t threads, bool packed) {
  constexpr int64_t kMostTried = 16;
  const int64_t column_tiles = divide_up(N, nr);
  const auto groups = [&](int64_t rows) {
    return divide_up(N, gemm_columns(N, rows, most, nr, threads));
  };
  const auto tiles = [&](const GemmParts& parts) {
    return divide_up(parts.rows * parts.columns, threads) * divide_up(row_tiles, parts.rows) *
           divide_up(column_tiles, parts.columns);
  };
  GemmParts best{blocks, groups(blocks)};
  // A single block of rows is not split if each piece packs its own columns, or if there are
  // columns for all threads, which then read each panel once.
  const bool is_split = blocks > 1 || (packed && column_tiles < threads);
  const int64_t tried = is_split ? at_most(threads, kMostTried) : 1;
  for (int64_t rows = blocks; threads > 1 && rows < at_most(blocks + tried, row_tiles + 1);
       ++rows) {
    const int64_t columns = groups(rows);
    for (const int64_t some : {columns, at_most(round_up(columns, threads), column_tiles)}) {
      if (const GemmParts parts{rows, some}; tiles(parts) < tiles(best)) {
        best = parts;
      }
    }
  }
  return best;
}

// 49 rows of 512 packed columns on 32 threads; panels that each piece packs are not packed twice.
static_assert(gemm_parts(4, 1, 512, 512, 32, 32, true).rows == 2);
static_assert(gemm_parts(4, 1, 512, 512, 32, 32, false).rows == 1);

// The tile at which part `part` of `parts` begins, of `tiles` tiles in all.
constexpr int64_t gemm_part_begin(int64_t part, int64_t parts, int64_t tiles) {
  return part * (tiles / parts) + at_most(part, tiles % parts);
}

// Multiply-adds per thread at least: some 20 us.
inline constexpr int64_t kThreadWork = 1 << 20;

// Pieces per thread at least, each of `rows` by `columns` by `depth` multiply-adds.
constexpr int64_t gemm_grain(int64_t rows, int64_t columns, int64_t depth) {
  const double work =
      static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  return work >= double{kThreadWork} ? 1 : kThreadWork / static_cast<int64_t>(work + 1) + 1;
}

}  // namespace cpuaccel::kernels
