// Family gemm_bf16: matrix products in BF16 arithmetic (AVX512-BF16, AMX, BFMMLA), with f32 sums.
//
//   dst[g,m,n] = beta * c[g,m,n] + bias + alpha * sum over k of bf16(a[g,m,k]) * bf16(b[g,k,n])
//
// The call is gemm's, with a and b f32 or bf16 each. f32 is rounded to nearest even while it is
// packed, so that no rounded copy of a weight has to be stored. Magnitudes below 2^-126, of
// operands and of sums, may count as 0, as they do in the instruction.
//
// call.pack_b writes f32, which is rounded likewise.
//
// call.packed may be a GemmPacked of f32 with panels as wide as the row's. For any other
// GemmPacked, gemm computes the call, in f32 arithmetic.
//
// Error of an f32 result: that of gemm for the rounded operands. (Arm's instructions round sums to
// odd, up to a whole unit of the last place, but two products are added to a sum at once: half as
// many roundings, and one more for the two.) As in gemm, results are the same bits on any number of
// threads.
//
// A "pair" is two bf16 of successive k in 32 bits, the first in the low half. With an odd K the
// second half of the last pair is 0. Pairs take the place of floats in gemm's kernels, so that
// loops, blocks and edges are gemm's: K is half as long, and a multiply-add is a dot product of two
// pairs. BFMMLA takes two successive pairs, a quad, of two rows and two columns.
//
// Bound: M * N * K multiply-adds at the rate of the instruction, or the bytes of a, b and dst once.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/kernels.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct GemmBf16Kernels {
  // Kernels whose tile and dot take pairs instead of floats; load and store are those of gemm.
  GemmFunction* pairs;
  // Pairs of successive k that the tile takes at once. Zeros pad its operands to a multiple of it.
  int64_t together;
  // Neighboring pairs of a row, or column, in what the tile reads: 1, or 2, which are a quad.
  int64_t interleaved;
  // The number of pairs that the tile takes for K elements.
  int64_t count(int64_t K) const { return (K + 2 * together - 1) / (2 * together) * together; }
  // dst[i * stride + p] = pair of src(i, 2p) and src(i, 2p + 1), for call.rows x call.columns
  // elements of src, f32 or bf16. dst's floats are pairs.
  LoadFunction* rows;
  // The same for the tile instead of dot. Quads of two successive rows lie side by side in the
  // memory of both; a last row without a partner is laid out as above.
  LoadFunction* tile_rows;
  // The same for a right matrix of call.rows (k) x call.columns elements, in the panels of
  // gemm/pack.h. If there are quads, panels[.. + k * nr + 2 * j] is that of column j from pair k
  // on.
  PanelsFunction* panels;
};
using GemmBf16Function = const GemmBf16Kernels&();

#define CPUACCEL_KERNEL(name) GemmBf16Function gemm_bf16_##name;
#include "kernels/gemm_bf16/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<GemmBf16Function>> gemm_bf16_kernels();

// All rows, to find the row of packed weights by its panel width, even if it may not run now. On a
// CPU without AMX, the AMX row is left out: its panels are as wide as those of AVX-512, but hold
// other pairs together.
CPUACCEL_API std::span<const KernelRow<GemmBf16Function>> all_gemm_bf16_kernels();

// With at most this many rows or columns, the bytes of the larger operand count, not the
// arithmetic. f32 operands in f32 arithmetic then take no longer, and are more exact.
inline constexpr int64_t kGemmBf16Few = 8;

// Uses the best usable row and all of torch's threads. Without Isa::bf16 that is the reference
// kernel, which is slow.
CPUACCEL_API void gemm_bf16(const GemmCall& call);

// Uses the given row.
CPUACCEL_API void gemm_bf16(const GemmCall& call, GemmBf16Function* row);

}  // namespace cpuaccel::kernels
