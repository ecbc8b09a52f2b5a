// Functions and tile sizes that a row of the qgemm kernel list provides.
//
// All multiplied bytes are s8, or, if `row_offset` is 128, those of rows are u8: the other kind is
// shifted by 128, and column sums correct for that as they do for zero points. K is split into
// runs, the number of bytes that an instruction adds up.
#pragma once

#include <cstdint>

#include "kernels/conv_dst.h"
#include "kernels/qgemm/qgemm.h"

namespace cpuaccel::kernels {

// Rows of src or columns of weights to be packed.
struct QgemmLines {
  const uint8_t* src = nullptr;  // K bytes per line
  int64_t stride = 0;            // bytes from a line to the next
  int64_t count = 0;
  int64_t K = 0;
  uint8_t flip = 0;  // 0x80 to shift the bytes by 128
  int8_t* dst = nullptr;
};
// Packs all runs of a tile's rows (count <= mr) or of a panel's columns (count <= nr) in the order
// that `tile` reads. k past K are zeros; missing columns may have any bytes.
using QgemmLinesFunction = void(const QgemmLines& lines);

// sums[i * nr + j] (+)= the products of row i and column j, summed over `runs` runs from first_run
// on, for i < m and j < n. Other sums up to nr may be written.
struct QgemmTile {
  const int8_t* rows = nullptr;   // from the run 0 on
  const int8_t* panel = nullptr;  // from the run 0 on
  int64_t first_run = 0, runs = 0;
  int64_t m = 0;  // 1 to mr
  int64_t n = 0;  // 1 to nr
  int32_t* sums = nullptr;
  bool add = false;
  // What is read after this tile, to be prefetched; may be nothing.
  const int8_t* next = nullptr;
  int64_t next_bytes = 0;
};
using QgemmTileFunction = void(const QgemmTile& tile);

// Converts m x n sums to results, from (m0, n0) on.
struct QgemmStore {
  const QgemmCall& call;
  const ConvDst& conv;               // call.dst as a ConvDst, with type f32 for s32 and bf16
  const int32_t* offsets = nullptr;  // per row: acc = sum + offset * column sum
  const float* scales = nullptr;     // per row; null means 1
  const int32_t* sums = nullptr;     // nr per row
  int64_t m0 = 0, n0 = 0, m = 0, n = 0;
};
using QgemmStoreFunction = void(const QgemmStore& store);

struct QgemmKernels {
  int64_t mr;   // maximum rows of a tile
  int64_t nr;   // columns of a panel
  int64_t run;  // bytes
  QgemmLinesFunction* rows;
  QgemmLinesFunction* columns;
  QgemmTileFunction* tile;
  QgemmStoreFunction* store;
  // What packed bytes of rows are above the s8, as the instruction needs them: 0 or 128.
  int32_t row_offset = 0;
  int64_t row_element = 1;  // bytes of a packed element of a row
};

// Maximum number of sums of a tile: 8 rows by 3 vectors of 2048 bits of columns (Arm's SVE).
inline constexpr int64_t kQgemmLargestTile = 8 * 3 * 64;

inline int64_t qgemm_runs(const QgemmKernels& kernels, int64_t K) {
  return K / kernels.run + (K % kernels.run != 0 ? 1 : 0);
}

}  // namespace cpuaccel::kernels
