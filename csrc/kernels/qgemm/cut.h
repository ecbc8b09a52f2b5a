// Blocking of a quantized matrix product: how M, N and K are split for caches and threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/qgemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

// A tile's rows and a panel have this many bytes per block of K, so they stay in an L1 cache of 64
// KiB.
inline constexpr int64_t kQgemmL1Bytes = 40 * 1024;
// Bytes of rows that stay in an L2 cache while the panels are read.
inline constexpr int64_t kQgemmL2Bytes = 512 * 1024;
// Bytes of sums between blocks of K, which stay in L2 as well.
inline constexpr int64_t kQgemmSumBytes = 128 * 1024;
// Multiply-adds per thread; about 10 us of work.
inline constexpr int64_t kQgemmThreadWork = 2 << 20;

struct QgemmCut {
  int64_t row_tiles, panels;
  // There are row_blocks * column_chunks pieces; pieces of one block of rows share its bytes.
  int64_t row_blocks = 1, column_chunks = 1;
  int64_t grain = 1;  // pieces
  // Runs of a block of K: all of them if there is one tile of rows, because each is then read once.
  int64_t runs;

  QgemmCut(const QgemmKernels& kernels, int64_t M, int64_t N, int64_t K, int64_t threads)
      : row_tiles(divide_up(M, kernels.mr)),
        panels(divide_up(N, kernels.nr)),
        runs(std::max<int64_t>(1, qgemm_runs(kernels, K))) {
    const int64_t most_rows = std::clamp<int64_t>(kQgemmL2Bytes / (K + 1), 32, 256);
    // With fewer than eight rows, reading the weights dominates the time.
    const double work = static_cast<double>(std::max<int64_t>(M, 8)) * static_cast<double>(N) *
                        static_cast<double>(K + 1);
    const auto wanted = static_cast<int64_t>(
        std::clamp(work / double{kQgemmThreadWork}, 1.0, static_cast<double>(threads)));
    row_blocks = divide_up(row_tiles, most_rows / kernels.mr);
    share(wanted);
    grain = divide_up(row_blocks * column_chunks, wanted);
    const int64_t most_runs = kQgemmL1Bytes / ((kernels.mr + kernels.nr) * kernels.run);
    if (row_tiles > 1) {
      runs = divide_up(runs, divide_up(runs, std::max<int64_t>(1, most_runs)));
    }
  }

  // Chooses row_blocks, at least its current value, and column_chunks so that the busiest thread
  // has the least work. Reads from distant caches or memory count too: a panel as half of a tile's
  // time, a tile's rows as an eighth.
  void share(int64_t threads) {
    if (row_blocks >= threads) {
      row_blocks = std::min(row_tiles, round_up(row_blocks, threads));
      return;
    }
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t blocks = row_blocks; blocks <= std::min(row_tiles, threads); ++blocks) {
      const int64_t chunks = std::min(panels, threads / blocks);
      const int64_t tiles = divide_up(row_tiles, blocks), columns = divide_up(panels, chunks);
      const int64_t time = 8 * tiles * columns + 4 * columns + tiles;
      if (time < least) {
        least = time;
        row_blocks = blocks;
        column_chunks = chunks;
      }
    }
  }

  // First index of block i if `total` is split into `blocks` blocks; block `blocks` gives the end.
  static int64_t border(int64_t total, int64_t blocks, int64_t i) {
    return total / blocks * i + std::min(i, total % blocks);
  }
};

}  // namespace cpuaccel::kernels
