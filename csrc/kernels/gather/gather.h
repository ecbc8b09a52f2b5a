// Family gather: the rows that an index names, one after the other.
//
//   dst[e] = src[index[e]]   for e = 0, 1, ..., E - 1
//
// Rows are bytes, of numbers of any type. Bound: index read and dst written once, and for each e a
// row of src read, from the cache that src fits.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {

struct GatherCall {
  int64_t E = 0, N = 0;
  const void* index = nullptr;  // E
  bool wide = true;             // index is int64, else int32
  bool wraps = false;           // numbers from -N to -1 count from the end
  int64_t row_bytes = 0;
  const void* src = nullptr;  // N rows
  int64_t src_stride = 0;     // bytes from row to row
  void* dst = nullptr;        // E rows, dense
};

// All of it on all of torch's threads. Where a number names none of the N rows, dst is left as it
// was. dst must not overlap src or index.
void gather(const GatherCall& call);

}  // namespace cpuaccel::kernels
