// Family gemm_w8: matrix product of floats by int8 weights, which family qgemm packed.
//
//   dst[m,n] = fma(sum over k of src[m,k] * weights[k,n], scales[n], bias[n])
//
// src M x K and dst M x N of f32, bf16 or f16. Each weight becomes a float, which is exact; sums
// are f32 fma, so nothing overflows that fits float. Errors: K * 2^-24 of the sum of |src *
// weight|, and the rounding to dst's type. byte_rows.h has another way for the fewest rows, with
// its error.
//
// Bound: up to 8 rows, reading the weights once, one byte each; more rows, M * N * K fma of f32.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "base/data_type.h"
#include "kernels/kernel_list.h"
#include "kernels/qgemm/qgemm.h"

namespace cpuaccel::kernels {

// Rows times a panel of weights, for k in [0, 4 * runs).
struct GemmW8Tile {
  const float* rows = nullptr;    // element (m, k) at k * width + m; zeros past K
  int64_t width = 0;              // 1, 2, 4 or 8
  const int8_t* panel = nullptr;  // as qgemm packs it, from run 0 on
  const float* floats = nullptr;  // the same as floats, column by column of each k; or null
  int64_t runs = 0;
  int64_t n = 0;          // columns, 1 to nr
  float* sums = nullptr;  // nr per row
  bool add = false;
};

// dst[j] = fma(sums[j], scales[j], bias[j]), for j < count. A null bias means zeros.
struct GemmW8Results {
  const float *sums = nullptr, *scales = nullptr, *bias = nullptr;
  int64_t count = 0;
  void* dst = nullptr;
  DataType type = DataType::f32;
};

// floats[m * nr + j] = steps[m] * (65536 * high + 256 * middle + low), each of which is a sum of
// qgemm for row 3 * m and the ones after it, less row_offset * column_sums[j]; for m < M, j < n.
struct GemmW8Bytes {
  const int32_t *sums = nullptr, *column_sums = nullptr;
  int32_t row_offset = 0;
  int64_t nr = 0, M = 0, n = 0;
  const float* steps = nullptr;
  float* floats = nullptr;
};

struct GemmW8Kernels {
  int64_t mr;  // maximum rows of a tile
  // The layout of qgemm's weights that the functions read.
  int64_t nr, run;
  void (*tile)(const GemmW8Tile& tile);
  // The weights of `runs` runs of a panel as floats: element (k, n) goes to k * nr + n.
  void (*widen)(const int8_t* panel, int64_t runs, float* floats);
  void (*finish)(const GemmW8Results& results);
  void (*add_bytes)(const GemmW8Bytes& bytes);
};
using GemmW8Function = const GemmW8Kernels&();

#define CPUACCEL_KERNEL(name) GemmW8Function gemm_w8_##name;
#include "kernels/gemm_w8/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<GemmW8Function>> gemm_w8_kernels();

// The best usable row that reads these weights, or null if there is none.
CPUACCEL_API GemmW8Function* gemm_w8_row(const QgemmWeights& weights);

struct GemmW8Call {
  const QgemmWeights* weights = nullptr;
  int64_t M = 0;
  const void* src = nullptr;
  DataType src_type = DataType::f32;
  int64_t src_stride = 0;  // elements from a row to the next
  void* dst = nullptr;     // dense
  DataType dst_type = DataType::f32;
  const float* scales = nullptr;  // N
  const float* bias = nullptr;    // N; null means zeros
};

// Runs on all of torch's threads. `row` reads the weights' layout.
CPUACCEL_API void gemm_w8(const GemmW8Call& call, GemmW8Function* row);

}  // namespace cpuaccel::kernels
