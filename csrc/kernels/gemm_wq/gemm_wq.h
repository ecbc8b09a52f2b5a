// Family gemm_wq: matrix product of floats by weights of 4 or 8 bits (weights.h).
//
//   result[m,n] = sum over k of src[m,k] * weights[k,n] + bias[n]
//
// src M x K of f32, bf16 or f16; dst.h says how dst is made of results. All arithmetic is f32. Up
// to kFewRows rows:
//
//   sum over g of scale[g,n] * (sum over k in g of src[m,k] * code[k,n]
//                               - zero[g,n] * sum over k in g of src[m,k])
//
// where the code may have the center subtracted before, and zeros of kind `reals` are added behind;
// byte_rows.h has another way for the fewest rows, with its error.
// More rows: weights[k,n] is rounded to f32, and family gemm multiplies; or, if src is bf16 and the
// CPU has such arithmetic, to bf16, and family gemm_bf16 multiplies.
//
// Error: (K + 3) * 2^-24 of the sum over k of |src * scale| * (|code| + |zero|), of which the sum
// of `reals` is (|code - center| * |scale| + |real|) * |src|; with bf16 arithmetic, 2^-8 of the sum
// of |src * weights| more; and the rounding to dst's type.
//
// Bound: up to 4 rows, reading the weights once; more rows, M * N * K fma of f32.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/api.h"
#include "base/data_type.h"
#include "kernels/gemm_wq/dst.h"
#include "kernels/gemm_wq/weights.h"
#include "kernels/kernel_list.h"
#include "kernels/qgemm_wq/qgemm_wq.h"

namespace cpuaccel::kernels {

// A panel times up to 8 rows, which are packed: x of row m and k is at
// rows[k * width + m] * places[k % 4] of the kernel. Each group begins at a new run, behind zeros.
struct WqTile {
  const float* rows = nullptr;
  const float* row_sums = nullptr;  // group by group, `width` each: the sums of the group's x
  int64_t width = 0;                // 1, 2, 4, 6 or 8
  const std::byte* panel = nullptr;
  const WqFormat* format = nullptr;
  const WqLayout* layout = nullptr;
  float* sums = nullptr;  // 32 for each row; written
};

// Weights of a panel as floats, in the panels of nr columns that family gemm multiplies (PanelBlock
// in gemm/pack.h): k in [k0, k0 + depth), and `columns` columns from `column` on, of which the
// first is number n of the block. nr, column, columns and n are whole vectors.
struct WqUnpack {
  const std::byte* panel = nullptr;
  const WqFormat* format = nullptr;
  const WqLayout* layout = nullptr;
  int64_t k0 = 0, depth = 0;
  int64_t column = 0, columns = 0;
  int64_t n = 0, nr = 0;
  float* panels = nullptr;

  float* dst(int64_t k, int64_t j) const {
    return panels + (n + j) / nr * depth * nr + (k - k0) * nr + (n + j) % nr;
  }
};

struct GemmWqKernels {
  std::array<float, 4> places4, places8;  // for codes of 4 and of 8 bits
  void (*tile)(const WqTile& tile);
  void (*unpack)(const WqUnpack& unpack);
  // Up to byte_rows rows by codes of 4 bits take less time by this kernel (byte_rows.h).
  int64_t byte_rows = 0;
  QgemmWqFunction* by_bytes = nullptr;
};
using GemmWqFunction = const GemmWqKernels&();

#define CPUACCEL_KERNEL(name) GemmWqFunction gemm_wq_##name;
#include "kernels/gemm_wq/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<GemmWqFunction>> gemm_wq_kernels();

struct GemmWqCall {
  const WqWeights* weights = nullptr;
  int64_t M = 0;
  const void* src = nullptr;
  DataType src_type = DataType::f32;
  int64_t src_stride = 0;  // elements from a row to the next
  WqDst dst;
  const float* bias = nullptr;  // N; null means zeros
};

// Runs the best usable row, or `row`, on all of torch's threads.
CPUACCEL_API void gemm_wq(const GemmWqCall& call);
CPUACCEL_API void gemm_wq(const GemmWqCall& call, GemmWqFunction* row);

}  // namespace cpuaccel::kernels
