// Where gemm takes its operands from when they are not plain matrices: a convolution writes the
// blocks of its unfolded image, weights packed beforehand are copied or handed over.
//
// Sources are called from several threads at once, each time for another block or the same one;
// they write f32, all of the block, and depend on nothing but their arguments.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {

// B[k0 .. k0 + kc) x [n0 .. n0 + nc) of batch element g, in panels of nr columns:
//
//   panels[p * kc * nr + k * nr + j] = B[k0 + k, n0 + p * nr + j]      0 <= k < kc, 0 <= j < nr
//
// for p < ceil(nc / nr). Columns of the last panel past nc are 0. n0 is a multiple of nr; nr is the
// kernel's, a multiple of 4 that is kGemmMaxNr at most; kc is at most kGemmMaxKc, which a panel of
// a GemmPacked may be longer than. panels is 64-byte aligned.
struct PanelBlock {
  int64_t g;
  int64_t k0, kc;
  int64_t n0, nc;
  int64_t nr;
  float* panels;
};

// Memory to bring closer: `rows` runs of `bytes`, `stride` bytes apart. None with rows = 0.
struct GemmPrefetch {
  const char* data = nullptr;
  int64_t rows = 0, bytes = 0, stride = 0;
};

struct PackPanels {
  void (*write)(const void* context, const PanelBlock& block) = nullptr;
  // What write() would read for the block, or null where that cannot be said. block.panels is not
  // read.
  GemmPrefetch (*source)(const void* context, const PanelBlock& block) = nullptr;
  const void* context = nullptr;
};

// A[m0 .. m0 + mc) x [k0 .. k0 + kc) of batch element g, row by row:
//
//   rows[m * stride + k] = A[m0 + m, k0 + k]
//
// What lies between kc and stride is not read. Few rows may be asked for with all of K at once.
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
