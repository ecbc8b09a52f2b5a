// What a row of qgemm's list offers.
//
// All bytes that it multiplies are s8: u8 is less 128, and column sums make up for that as they do
// for zero points. K is cut into runs, as many bytes as an instruction adds up.
#pragma once

#include <cstdint>

#include "kernels/conv_dst.h"
#include "kernels/qgemm/qgemm.h"

namespace cpuaccel::kernels {

// Lines are rows of src or columns of weights.
struct QgemmLines {
  const uint8_t* src = nullptr;  // K bytes a line
  int64_t stride = 0;            // from a line to the next
  int64_t count = 0;
  int64_t K = 0;
  uint8_t flip = 0;  // 0x80 for u8
  int8_t* dst = nullptr;
};
// Writes all runs of a tile's rows (count <= mr) as the row's tile reads them; or a panel of
// columns (count <= nr), with zeros for k that are not there and any bytes for columns that are
// not.
using QgemmLinesFunction = void(const QgemmLines& lines);

// sums[i * nr + j] (+)= sum over the runs from first_run on of row i times column j, for i < m and
// j < n; others up to nr may be written.
struct QgemmTile {
  const int8_t* rows = nullptr;   // from the run 0 on
  const int8_t* panel = nullptr;  // from the run 0 on
  int64_t first_run = 0, runs = 0;
  int64_t m = 0;  // 1 to mr
  int64_t n = 0;  // 1 to nr
  int32_t* sums = nullptr;
  bool add = false;
};
using QgemmTileFunction = void(const QgemmTile& tile);

// Makes results of m x n sums, from (m0, n0) on.
struct QgemmStore {
  const QgemmCall& call;
  const ConvDst& conv;               // call.dst, where it is not s32 nor bf16
  const int32_t* offsets = nullptr;  // of rows: times a column's sum, this is added
  const float* scales = nullptr;     // of rows, or null: 1
  const int32_t* sums = nullptr;     // nr a row
  int64_t m0 = 0, n0 = 0, m = 0, n = 0;
};
using QgemmStoreFunction = void(const QgemmStore& store);

struct QgemmKernels {
  int64_t mr;   // rows of a tile, at most
  int64_t nr;   // columns of a panel
  int64_t run;  // bytes
  QgemmLinesFunction* rows;
  QgemmLinesFunction* columns;
  QgemmTileFunction* tile;
  QgemmStoreFunction* store;
};

// Sums of a tile, at most: 8 rows, and 3 vectors of 2048 bits of columns.
inline constexpr int64_t kQgemmLargestTile = 8 * 3 * 64;

inline int64_t qgemm_runs(const QgemmKernels& kernels, int64_t K) {
  return K / kernels.run + (K % kernels.run != 0 ? 1 : 0);
}

}  // namespace cpuaccel::kernels
