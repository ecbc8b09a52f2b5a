// Family attention: scaled dot-product attention, softmax(scale * Q K^T + mask) V, computed block
// by block without storing the whole score matrix (flash attention).
//
//   score[n,h,l,s] = cap(scale * sum over e of query[n,h,l,e] * key[n,g,s,e]) + mask[n,h,l,s]
//   dst[n,h,l,e]   = sum over s of softmax over s of score[n,h,l,s] * value[n,g,s,e]
//   logsumexp[n,h,l] = log of the sum over s of exp(score[n,h,l,s])
//   cap(x) = soft_cap * tanh(x / soft_cap), or x without a soft cap
//
//   n < N, h < H, l < L (queries), s < S (keys), e < E, all int64 and at least 1
//   g = h / group: a head of keys and values serves `group` heads of queries
//   query, key, value, dst: f32, bf16 or f16; mask: f32, bf16 or f16, or none
//   With a mask_width W, the mask is a sum: mask[n,h,l,s / W] + mask_columns[n,h,l,s % W]. So are
//   masks of positions in images (Li et al., "MViTv2", 2022).
//   any strides, except that dst's elements e are contiguous and its rows do not overlap
//   sinks: H floats, or none. sinks[h] is one more score of each softmax, of a key whose value is
//   0. causal: keys s > l + past count as masked, and with a window keys s <= l + past - window too
//   key and value may also be s8, if their elements e are contiguous. Then each position of a head
//   has a scale: key[n,g,s,e] stands for key_scales[n,g,s] * key[n,g,s,e].
//
// Arithmetic is f32. With `bf16`, products are of bf16 numbers with f32 sums: operands and softmax
// weights are rounded to nearest even, sums and logsumexp are not. With few queries (few_queries.h)
// nothing is rounded, and keys and values are read once, in place; but queries of s8 keys may be
// rounded to 16 bits, of the largest magnitude of their row. If all keys of a row are masked,
// its dst and logsumexp are 0. A NaN among a row's scores makes the whole row NaN.
//
// Results are bitwise the same on any number of threads. The running maximum is that of Milakov and
// Gimelshein, "Online normalizer calculation for softmax" (2018); blocks of keys as in Dao,
// "FlashAttention-2" (2023).
//
// Bound: 2 * L * S * E multiply-adds and L * S exponentials a head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/attention/groups.h"
#include "kernels/gemm/types.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Element (n, h, row, column) is at data[n * batch_stride + h * head_stride + ...]; strides count
// elements.
struct AttentionMatrix {
  const void* data = nullptr;
  DataType type = DataType::f32;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0, column_stride = 0;
};

struct AttentionDst {
  void* data = nullptr;
  DataType type = DataType::f32;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
};

// The scale of position (n, g, s) is at data[n * batch_stride + g * head_stride + s * row_stride].
struct AttentionScales {
  const float* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
};

struct AttentionCall {
  int64_t N = 0, H = 0, L = 0, S = 0, E = 0;
  int64_t group = 1;                        // a divisor of H
  AttentionMatrix query, key, value, mask;  // mask.data null: none
  AttentionMatrix mask_columns;
  int64_t mask_width = 0;  // 0: mask is whole
  AttentionDst dst;
  AttentionDst logsumexp;  // f32; data null: none
  float scale = 1.0f;
  float soft_cap = 0.0f;         // 0: none
  const float* sinks = nullptr;  // null: none
  bool causal = false;
  int64_t past = 0;                          // with causal
  int64_t window = 0;                        // with causal; 0: none
  AttentionScales key_scales, value_scales;  // of s8
  bool bf16 = false;                         // only if gemm_bf16 has a usable row besides ref
};

// With at most this many queries, as in a decoder's step, keys and values are read in place if
// their elements e are contiguous (few_queries.h). Packing them would take longer than the
// products, which take no longer than reading.
inline constexpr int64_t kAttentionFewQueries = 7;
// The same for queries of the `group` heads that share keys and values.
inline constexpr int64_t kAttentionFewRows = 64;

// One row of a block of scores. mask is null or as long as the row.
struct SoftmaxRow {
  float* scores;
  int64_t count;
  const float* mask;
  float max;  // of the scores before this block; minus infinity for the first block
  float scale = 1.0f;
};
struct SoftmaxResult {
  float max;  // including this block
  float sum;  // of exp(score - max) in this block
};

struct AttentionKernels {
  // scores[i] = exp(scale * scores[i] + mask[i] - max), 0 if that is below exp(-87).
  SoftmaxResult (*softmax)(const SoftmaxRow& row);
  // The same, but writes weights[i], rounded to bf16, instead of scores[i]. Null if there is none.
  SoftmaxResult (*softmax_bf16)(const SoftmaxRow& row, uint16_t* weights);
  // row[i] *= factor
  void (*scale)(float* row, int64_t count, float factor);
  // row[i] = cap * tanh(scale * row[i] / cap)
  void (*cap)(float* row, int64_t count, float scale, float cap);
  // row[i] *= factors[i]
  void (*multiply)(float* row, const float* factors, int64_t count);
  // dst[i] = src[i]
  void (*widen)(const int8_t* src, int64_t count, float* dst);
  // dst[i * width + j] = rows[i] + columns[j]. May read columns up to a multiple of 16, and write
  // up to 15 elements behind dst.
  void (*outer_sum)(const float* rows, int64_t count, const float* columns, int64_t width,
                    float* dst);
  // Null if there are no such loops.
  const AttentionGroups* groups = nullptr;
};
using AttentionFunction = const AttentionKernels&();

#define CPUACCEL_KERNEL(name) AttentionFunction attention_##name;
#include "kernels/attention/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<AttentionFunction>> attention_kernels();

// Uses the best usable rows of attention and gemm, and all of torch's threads.
CPUACCEL_API void attention(const AttentionCall& call);

// Uses the given row.
CPUACCEL_API void attention(const AttentionCall& call, AttentionFunction* row);

}  // namespace cpuaccel::kernels
