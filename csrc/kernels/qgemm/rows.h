// Packs rows of the source of a qgemm call as bytes in tiles, quantizing floats.
#pragma once

#include <cstdint>

#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {

struct QgemmRows {
  const QgemmCall& call;
  const QgemmKernels& kernels;
  int64_t first = 0;  // first row in memory: a multiple of kernels.mr
  int64_t row_bytes = 0;
  int8_t* tiles = nullptr;
  int32_t* offsets = nullptr;
  float* scales = nullptr;  // null if all are 1

  // Takes room for `count` rows from first_row on from this thread's scratch memory.
  QgemmRows(const QgemmCall& of, const QgemmKernels& by, int64_t first_row, int64_t count);

  // Packs `count` rows from row m on. m begins a tile; the last row ends a tile or the matrix.
  void pack(int64_t m, int64_t count) const;

  const int8_t* tile(int64_t m) const { return tiles + (m - first) * row_bytes; }

 private:
  void pack_tile(int64_t m, int64_t count) const;
};

}  // namespace cpuaccel::kernels
