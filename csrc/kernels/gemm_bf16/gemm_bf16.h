// Family gemm_bf16: products of matrices in BF16 arithmetic, sums in f32.
//
//   dst[g,m,n] = beta * c[g,m,n] + bias + alpha * sum over k of bf16(a[g,m,k]) * bf16(b[g,k,n])
//
// The call is gemm's, with a and b f32 or bf16 each. f32 is rounded to nearest even while it is
// packed, so no rounded copy of a weight has to be kept anywhere. Magnitudes below 2^-126, of
// operands and of sums, may count as 0, as the instruction has it.
//
// call.packed may be a GemmPacked of f32 of as wide panels as the row's; of anything else gemm
// computes the call, in f32 arithmetic.
//
// Error of an f32 result: that of gemm, of the rounded operands. (Arm's instructions round sums to
// odd, up to a whole unit of the last place, but two products are added to a sum at once: half as
// many roundings, and one more for the two.) As there, results are the same bits on any number of
// threads.
//
// A "pair" is two bf16 of successive k in 32 bits, the first in the low half; with an odd K the
// last one's second is 0. Pairs stand where gemm's own kernels have floats, so the loops, blocks
// and edges are gemm's: K is half as long, and a multiply-add is a dot product of two pairs. BFMMLA
// takes two successive pairs, a quad, of two rows and two columns.
//
// Bound: M * N * K multiply-adds at the rate of the instruction, or the bytes of a, b and dst once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/kernels.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct GemmBf16Kernels {
  // Kernels whose tile and dot take pairs for floats; load and store are those of gemm.
  GemmFunction* pairs;
  // Pairs of successive k that the tile takes at once: zeros fill up what it reads.
  int64_t together;
  // Pairs of a row, or column, that lie side by side in what the tile reads: 1, or 2, a quad.
  int64_t interleaved;
  // Those that K elements are for the tile.
  int64_t count(int64_t K) const { return (K + 2 * together - 1) / (2 * together) * together; }
  // dst[i * stride + p] = pair of src(i, 2p) and src(i, 2p + 1), for call.rows x call.columns
  // elements of src, f32 or bf16. dst's floats are pairs.
  LoadFunction* rows;
  // The same, for the tile instead of dot. Quads of two successive rows lie side by side in the
  // memory of both, and a last row without partner is as above.
  LoadFunction* tile_rows;
  // The same of a right matrix of call.rows (k) x call.columns elements, in the panels of
  // gemm/pack.h. Of quads, panels[.. + k * nr + 2 * j] is that of column j from the pair k on.
  PanelsFunction* panels;
};
using GemmBf16Function = const GemmBf16Kernels&();

#if defined(__x86_64__)
#define CPUACCEL_GEMM_BF16_KERNELS(row) \
  row(x86_amx, Isa::avx512_vnni) row(x86_avx512bf16, Isa::avx512_vnni) row(ref, Isa::ref)
inline constexpr size_t kGemmBf16AmxRows = 1;  // the first, of amx_tiles_usable() alone
#elif defined(__aarch64__)
#define CPUACCEL_GEMM_BF16_KERNELS(row) \
  row(arm64_sve, Isa::sve) row(arm64_i8mm, Isa::i8mm) row(ref, Isa::ref)
inline constexpr size_t kGemmBf16AmxRows = 0;
#else
#define CPUACCEL_GEMM_BF16_KERNELS(row) row(ref, Isa::ref)
inline constexpr size_t kGemmBf16AmxRows = 0;
#endif

#define CPUACCEL_DECLARE(name, isa) GemmBf16Function gemm_bf16_##name;
CPUACCEL_GEMM_BF16_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

// Those that the CPU has the instruction for: it is not on the ladder of ISAs, where VBMI came
// before it on some CPUs and after it on others.
std::span<const KernelRow<GemmBf16Function>> gemm_bf16_kernels();

// For reading what was packed for a row that may not run now: the whole list, without AMX's row on
// a CPU that has none. Its panels are as wide as those of AVX-512, and hold other pairs together.
std::span<const KernelRow<GemmBf16Function>> all_gemm_bf16_kernels();

// With so few rows or columns the bytes of the larger operand count, not the arithmetic: f32 as it
// is takes no longer then, and is more exact.
inline constexpr int64_t kGemmBf16Few = 8;

// With the best usable row, on all of torch's threads. Without has_bf16_arithmetic() that is a
// slow reference.
void gemm_bf16(const GemmCall& call);

// With a given row.
void gemm_bf16(const GemmCall& call, GemmBf16Function* row);

}  // namespace cpuaccel::kernels
