// Family attention: softmax(scale * Q K^T + mask) V, block by block, the scores never whole.
//
//   score[n,h,l,s] = scale * sum over e of query[n,h,l,e] * key[n,h,s,e] + mask[n,h,l,s]
//   dst[n,h,l,e]   = sum over s of softmax over s of score[n,h,l,s] * value[n,h,s,e]
//   logsumexp[n,h,l] = log of the sum over s of exp(score[n,h,l,s])
//
//   n < N, h < H, l < L (queries), s < S (keys), e < E, all int64 and at least 1
//   query, key, value, dst: f32, or bf16; mask: f32, or bf16, or none; any strides but dst's, whose
//   elements e lie side by side and whose rows do not overlap
//   causal: keys s > l count as masked
//
// Arithmetic is f32, or with `bf16` products of bf16 with f32 sums: operands and weights of the
// softmax are rounded to nearest even, sums and logsumexp are not; with fewer than 8 queries
// nothing is rounded, and keys and values are read once, where they lie. A row without a key that
// is not masked is 0, its logsumexp too; NaN among a row's scores makes all of the row NaN.
//
// Results are the same bits on any number of threads. The running maximum is that of Milakov and
// Gimelshein, "Online normalizer calculation for softmax" (2018); blocks of keys as in Dao,
// "FlashAttention-2" (2023).
//
// Bound: 2 * L * S * E multiply-adds and L * S exponentials a head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gemm/types.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Element (n, h, row, column) is at data[n * batch_stride + h * head_stride + ...]; strides count
// elements.
struct AttentionMatrix {
  const void* data = nullptr;
  GemmType type = GemmType::f32;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0, column_stride = 0;
};

struct AttentionDst {
  void* data = nullptr;
  GemmType type = GemmType::f32;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
};

struct AttentionCall {
  int64_t N = 0, H = 0, L = 0, S = 0, E = 0;
  AttentionMatrix query, key, value, mask;  // mask.data null: none
  AttentionDst dst;
  AttentionDst logsumexp;  // f32; data null: none
  float scale = 1.0f;
  bool causal = false;
  bool bf16 = false;  // only where gemm_bf16 has a row besides ref
};

// Of up to so many queries, as of a decoder's one, keys and values are read where they lie, if
// their elements e lie side by side (few_queries.h): packing them would take longer than the
// products, and these no longer than reading.
inline constexpr int64_t kAttentionFewQueries = 7;

// One row of a block of scores. mask is null or as long as the row.
struct SoftmaxRow {
  float* scores;
  int64_t count;
  const float* mask;
  float max;  // of the scores before this block, minus infinity at first
  float scale = 1.0f;
};
struct SoftmaxResult {
  float max;  // with this block
  float sum;  // of exp(score - max) in this block
};

struct AttentionKernels {
  // scores[i] = exp(scale * scores[i] + mask[i] - max), 0 where that is below exp(-87).
  SoftmaxResult (*softmax)(const SoftmaxRow& row);
  // The same, but for where the weights are written: weights[i], rounded to bf16. Null: none.
  SoftmaxResult (*softmax_bf16)(const SoftmaxRow& row, uint16_t* weights);
  // row[i] *= factor
  void (*scale)(float* row, int64_t count, float factor);
};
using AttentionFunction = const AttentionKernels&();

#if defined(__x86_64__)
#define CPUACCEL_ATTENTION_KERNELS(row)                                                       \
  row(x86_avx512bf16, Isa::avx512_vnni) row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) \
      row(ref, Isa::ref)
inline constexpr size_t kAttentionBf16Rows = 1;  // the first, of has_bf16_arithmetic() alone
#elif defined(__aarch64__)
#define CPUACCEL_ATTENTION_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
inline constexpr size_t kAttentionBf16Rows = 0;
#else
#define CPUACCEL_ATTENTION_KERNELS(row) row(ref, Isa::ref)
inline constexpr size_t kAttentionBf16Rows = 0;
#endif

#define CPUACCEL_DECLARE(name, isa) AttentionFunction attention_##name;
CPUACCEL_ATTENTION_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

// Those that the CPU has the instructions for: BF16's are not on the ladder of ISAs.
std::span<const KernelRow<AttentionFunction>> attention_kernels();

// With the best usable row and gemm's, on all of torch's threads.
void attention(const AttentionCall& call);

// With a given row.
void attention(const AttentionCall& call, AttentionFunction* row);

}  // namespace cpuaccel::kernels
