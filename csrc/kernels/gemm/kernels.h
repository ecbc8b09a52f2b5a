// GemmKernels: the functions (tile, dot, rows, load, ...) that each row of gemm's kernel list
// offers.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/types.h"

namespace cpuaccel::kernels {

// The start of a tile's sums: data[i * stride + j] + bias[j]. Null: zeros.
struct GemmStart {
  const float* data = nullptr;
  int64_t stride = 0;
  const float* bias = nullptr;

  float at(int64_t i, int64_t j) const {
    return (data != nullptr ? data[i * stride + j] : 0.0f) + (bias != nullptr ? bias[j] : 0.0f);
  }
  GemmStart at_column(int64_t n) const {
    return {data != nullptr ? data + n : nullptr, stride, bias != nullptr ? bias + n : nullptr};
  }
};

// c[i * c_stride + j] = from.data[i * from.stride + j] + from.bias[j]
//                     + alpha * sum over k of a[i * a_stride + k] * panel[k * nr + j]
// for j < n, n <= nr, and any m and k. from.data may be c.
struct TileCall {
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const void* panel;
  DataType type;  // of the panel
  float* c;
  int64_t c_stride;
  float alpha;
  GemmStart from;
  bool again;         // the thread's last call had as many rows, and only loads came in between
  GemmPrefetch next;  // what is read after this panel, to be prefetched
};
using TileFunction = void(const TileCall& call);

// c[i * c_row + j * c_column] = (add ? the same : 0)
//                             + alpha * sum over k of a[i * a_stride + k] * b[j * b_stride + k]
// for any m, n and k.
struct DotCall {
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const void* b;
  DataType type;  // of b
  int64_t b_stride;
  float* c;
  int64_t c_row, c_column;
  float alpha;
  bool add;
  GemmPrefetch next;  // what is read after this block, to be prefetched
  // The rows of a as elements of `type`, which has 16 bits, or null: as they lie in memory, if they
  // do so next to each other along k.
  const void* a_halves = nullptr;
  int64_t a_halves_stride = 0;
};
using DotFunction = void(const DotCall& call);

// c[i * c_stride + j] += sum over k of (alpha * a[i * a_stride + k]) * b[k * b_stride + j]
// for m up to kRowsMost, any n and k.
inline constexpr int64_t kRowsMost = 6;
struct RowsCall {
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const void* b;
  DataType type;  // of b
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  float alpha;
};
using RowsFunction = void(const RowsCall& call);

// dst[i * stride + j] = src[i * row_stride + j * column_stride] as f32, for rows x columns
// elements.
struct LoadCall {
  const void* src;
  DataType type;
  int64_t row_stride, column_stride;
  int64_t rows, columns;
  float* dst;
  int64_t stride;
};
using LoadFunction = void(const LoadCall& call);

// The same, but in the panels of pack.h: dst[j / nr * nr * rows + i * nr + j % nr], and zeros
// behind the last column. call.stride is ignored.
using PanelsFunction = void(const LoadCall& call, int64_t nr);

// Converts count floats to another type, to nearest even.
using StoreFunction = void(const float* src, int64_t count, void* dst, DataType type);

// c[i * c_stride + j] = (add ? the same : bias[j])
//                     + sum over k of src[i][offsets[k]] * panel[k * nr + j]
// for j < n, n <= nr, and any m and k: rows of A at any addresses. bias null: zeros.
struct GemmPixelsCall {
  int64_t m, n, k;
  const float* const* src;
  const int32_t* offsets;
  const float* panel;
  const float* bias;
  float* c;
  int64_t c_stride;
  bool add;
  std::span<const char> next;  // a panel to prefetch, or nothing
};
using PixelsFunction = void(const GemmPixelsCall& call);

// The number of rows of A up to which dot is faster than packing B for tile, by the type of B.
struct DotLimits {
  int64_t floats, halves;
};

// Most rows of a panel.
inline constexpr int64_t kGemmKc = 256;

struct GemmKernels {
  int64_t mr, nr;    // of the largest tile
  int64_t dot_rows;  // of dot's largest tile
  DotLimits dot_most;
  TileFunction* tile;
  DotFunction* dot;
  RowsFunction* rows;
  LoadFunction* load;
  PanelsFunction* panels;
  StoreFunction* store;
  PixelsFunction* pixels;
  // Releases what a thread's tiles hold between calls: see GemmTiles. Null: nothing to release.
  void (*release)() = nullptr;
  int64_t packed_kc = kGemmKc;  // most rows of a panel, in a GemmPacked that owns its memory
};

// Calls `release` at the end of a scope in which a thread multiplies.
class GemmTiles {
 public:
  explicit GemmTiles(const GemmKernels& kernels) : release_(kernels.release) {}
  ~GemmTiles() {
    if (release_ != nullptr) {
      release_();
    }
  }
  GemmTiles(const GemmTiles&) = delete;
  GemmTiles& operator=(const GemmTiles&) = delete;

 private:
  void (*release_)();
};

}  // namespace cpuaccel::kernels
