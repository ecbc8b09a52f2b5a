// Family qgemm_wq: matrix product of int8 rows by weights of 4 or 8 bits (gemm_wq/weights.h).
//
//   result[m,n] = scale[m] * sum over k of (src[m,k] - zero_point[m]) * weights[k,n] + bias[n]
//
// src is what family quantize_by_row writes; gemm_wq/dst.h says how dst is made of results.
// Computed as
//
//   scale[m] * (sum over g of weights' scale[g,n] * (dot[g] - zero[g,n] * sum over k in g of src)
//               - zero_point[m] * sum over k of weights[k,n]) + bias[n]
//   dot[g] = sum over k in g of src[m,k] * code[k,n]
//
// Sums of integers are exact, and become f32 at the end of a group, and every kWqIntegers k. Zeros
// of kind `reals` are added behind the group.
//
// Error of a sum: (2 groups + 6) * 2^-24 of the sum over k of |scale * weights' scale| *
// (|src| + |zero_point|) * (|code| + |zero|); the rounding to dst's type.
//
// Bound: up to 8 rows, reading the weights once; more rows, M * N * K products of bytes.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "base/data_type.h"
#include "kernels/gemm_wq/dst.h"
#include "kernels/gemm_wq/weights.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Products of 255 * 128 of as many k fit int32.
inline constexpr int64_t kWqIntegers = 32768;

// Bytes of a row that lie side by side (a run), and the tiles of 8 rows of a call: Arm's products
// of matrices read 8 bytes of two rows, and its kernels unpack a group's codes once for all tiles.
#if defined(__aarch64__)
inline constexpr int64_t kWqRowRun = 8, kWqTiles = 16;
#else
inline constexpr int64_t kWqRowRun = 4, kWqTiles = 1;
#endif

// The most k of a group of which the `starts` of a tile fit int16. None on Arm, whose kernels have
// starts of their own.
inline constexpr int64_t kWqStart = kWqTiles > 1 ? 0 : 32;

// The place of row m's bytes 4 * four to 4 * four + 3, in dwords of a tile of `width` rows.
constexpr int64_t wq_row_dword(int64_t four, int64_t m, int64_t width) {
  constexpr int64_t kDwords = kWqRowRun / 4;
  return (four / kDwords * width + m) * kDwords + four % kDwords;
}

// A panel times up to 8 rows, whose bytes lie as wq_row_dword says. Each group begins at a new run
// and at a new dword of codes, behind zeros. Of wide rows, x86's products of 16 bits read two
// dwords in the place of one: the first and third byte as int16, and the second and fourth.
struct QgemmWqTile {
  // Tiles one behind another, in all arrays but the panel. Several have 8 rows each.
  int64_t tiles = 1;  // at most kWqTiles
  const int32_t* rows = nullptr;
  const float* row_sums = nullptr;  // group by group, `width` each: the sums of the group's bytes
  // The same: -8 times the sums of the group's bytes, with which sums of codes from 0 become those
  // of centered codes. Groups of up to kWqStart k: as two int16, of the bytes with k % 4 < 2 and of
  // the others. Null for groups of more than kWqIntegers k, and on Arm.
  const int32_t* starts = nullptr;
  int64_t width = 0;  // 1, 2, 3 (not on Arm), 4 or 8
  const std::byte* panel = nullptr;
  const WqFormat* format = nullptr;
  const WqLayout* layout = nullptr;
  bool prefetches = true;  // because the panel was not read before
  float* sums = nullptr;   // 32 for each row, written: the sum over the groups
};

struct QgemmWqKernels {
  void (*tile)(const QgemmWqTile& tile);
  bool wide_rows = false;  // reads wide rows by codes of 8 bits
};
using QgemmWqFunction = const QgemmWqKernels&();

#define CPUACCEL_KERNEL(name) QgemmWqFunction qgemm_wq_##name;
#include "kernels/qgemm_wq/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<QgemmWqFunction>> qgemm_wq_kernels();

struct QgemmWqCall {
  const WqWeights* weights = nullptr;
  int64_t M = 0;
  const int8_t* src = nullptr;           // M x K, dense
  const float* scales = nullptr;         // M
  const int32_t* zero_points = nullptr;  // M; null means zeros
  WqDst dst;
  const float* bias = nullptr;  // N; null means zeros
};

// Runs the best usable row, or `row`, on all of torch's threads.
CPUACCEL_API void qgemm_wq(const QgemmWqCall& call);
CPUACCEL_API void qgemm_wq(const QgemmWqCall& call, QgemmWqFunction* row);

}  // namespace cpuaccel::kernels
