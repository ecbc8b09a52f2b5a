// What an instruction set has to offer to the loops of gemm: one table a row.
#pragma once

#include <cstdint>

#include "kernels/gemm/types.h"

namespace cpuaccel::kernels {

// c[i, j] = (add ? c[i, j] : 0) + alpha * sum over k of a[i * a_stride + k] * panel[k * nr + j]
// for i < m and j < n, where n <= nr; m is any number.
struct TileCall {
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const float* panel;
  float* c;
  int64_t c_stride;
  float alpha;
  bool add;
  const float* next;  // a panel as large that is wanted after this one, or null
};
using TileFunction = void(const TileCall& call);

// c[i * c_row + j * c_column] = (add ? the same : 0)
//                               + alpha * sum over k of a[i * a_stride + k] * b[j * b_stride + k]
// for any m, n and k.
struct DotCall {
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const void* b;
  GemmType type;  // of b
  int64_t b_stride;
  float* c;
  int64_t c_row, c_column;
  float alpha;
  bool add;
  const void* next;  // a block like b that is wanted after this one, or null
};
using DotFunction = void(const DotCall& call);

// dst[i * stride + j] = src[i * row_stride + j * column_stride] as f32, rows x columns of it.
struct LoadCall {
  const void* src;
  GemmType type;
  int64_t row_stride, column_stride;
  int64_t rows, columns;
  float* dst;
  int64_t stride;
};
using LoadFunction = void(const LoadCall& call);

// count floats to another type, to nearest even.
using StoreFunction = void(const float* src, int64_t count, void* dst, GemmType type);

struct GemmKernels {
  int64_t mr, nr;  // of the largest tile
  TileFunction* tile;
  DotFunction* dot;
  LoadFunction* load;
  StoreFunction* store;
};

}  // namespace cpuaccel::kernels
