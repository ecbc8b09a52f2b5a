// Packing callbacks of gemm, for operands that are not plain matrices: a convolution writes blocks
// of its im2col matrix, packed weights are copied or passed on.
//
// Callbacks run on several threads at once, for different blocks or for the same one. They write
// all of the block as f32 and depend on nothing but their arguments.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {

// B[k0 .. k0 + kc) x [n0 .. n0 + nc) of batch element g, in panels of nr columns:
//
//   panels[p * kc * nr + k * nr + j] = B[k0 + k, n0 + p * nr + j]      0 <= k < kc, 0 <= j < nr
//
// for p < ceil(nc / nr). Columns of the last panel past nc are 0. n0 is a multiple of nr. nr is the
// kernel's, a multiple of 4 and at most kGemmMaxNr. kc is at most kGemmMaxKc, but panels of a
// GemmPacked may be longer. panels is 64-byte aligned.
struct PanelBlock {
  int64_t g;
  int64_t k0, kc;
  int64_t n0, nc;
  int64_t nr;
  float* panels;
};

// Memory to prefetch: `rows` runs of `bytes` bytes, `stride` bytes apart. None if rows = 0.
struct GemmPrefetch {
  const char* data = nullptr;
  int64_t rows = 0, bytes = 0, stride = 0;
};

struct PackPanels {
  void (*write)(const void* context, const PanelBlock& block) = nullptr;
  // The memory that write() would read for the block, or null if that is unknown. block.panels is
  // ignored.
  GemmPrefetch (*source)(const void* context, const PanelBlock& block) = nullptr;
  const void* context = nullptr;
  // write() takes less time than storing panels and reading them from L3. It is called again for
  // each block of rows.
  bool is_fast = false;
};

// A[m0 .. m0 + mc) x [k0 .. k0 + kc) of batch element g, row by row:
//
//   rows[m * stride + k] = A[m0 + m, k0 + k]
//
// Elements between kc and stride are not read. With few rows, a block may have all of K.
struct RowBlock {
  int64_t g;
  int64_t m0, mc;
  int64_t k0, kc;
  int64_t stride;
  float* rows;
};

struct PackRows {
  void (*write)(const void* context, const RowBlock& block) = nullptr;
  const void* context = nullptr;
};

inline constexpr int64_t kGemmMaxKc = 512;
inline constexpr int64_t kGemmMaxNr = 192;  // three of SVE's longest vectors

}  // namespace cpuaccel::kernels
