// Family gather: index_select of rows, which copies the rows that an index names.
//
//   dst[e] = src[index[e]]   for e = 0, 1, ..., E - 1
//
// Rows are bytes, so that elements may be of any type.
// Bound: index read and dst written once, and for each e a row of src read, from the cache that src
// fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct GatherCall {
  int64_t E = 0, N = 0;
  const void* index = nullptr;  // E
  bool wide = true;             // index is int64, otherwise int32
  bool wraps = false;           // numbers from -N to -1 count from the end
  int64_t row_bytes = 0;
  const void* src = nullptr;  // N rows
  int64_t src_stride = 0;     // bytes from row to row
  void* dst = nullptr;        // E rows, dense
};

// Copies a row of at least kLongRow bytes from front to back. The C library copies from back to
// front if addresses are near each other within a page, which the hardware prefetchers do not
// follow.
using CopyRowFunction = void(std::byte* dst, const std::byte* src, int64_t bytes);
inline constexpr int64_t kLongRow = 1024;

#define CPUACCEL_KERNEL(name) CopyRowFunction copy_row_##name;
#include "kernels/gather/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<CopyRowFunction>> copy_row_kernels();

// Copies all rows on all of torch's threads. Rows of dst whose index is out of range are left
// unchanged. dst must not overlap src or index.
CPUACCEL_API void gather(const GatherCall& call, CopyRowFunction* copy_row);
CPUACCEL_API void gather(const GatherCall& call);  // uses the best usable row

}  // namespace cpuaccel::kernels
