// Rows of a call's source, as bytes in tiles.
#pragma once

#include <cstdint>

#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {

struct QgemmRows {
  const QgemmCall& call;
  const QgemmKernels& kernels;
  int64_t first = 0;  // row that the memory begins with: a multiple of kernels.mr
  int64_t row_bytes = 0;
  int8_t* tiles = nullptr;
  int32_t* offsets = nullptr;
  float* scales = nullptr;  // null where all are 1

  // Of `count` rows from `first` on, in the scratch memory of this thread.
  QgemmRows(const QgemmCall& of, const QgemmKernels& by, int64_t first_row, int64_t count);

  // Writes `count` rows from row m on, which begins a tile, and ends one or the matrix.
  void pack(int64_t m, int64_t count) const;

  const int8_t* tile(int64_t m) const { return tiles + (m - first) * row_bytes; }

 private:
  void pack_tile(int64_t m, int64_t count) const;
};

}  // namespace cpuaccel::kernels
