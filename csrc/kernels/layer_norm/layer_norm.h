// Family layer_norm: layer normalization of rows of floats, with an optional addition before it and
// an optional quantization after it.
//
//   x[r,c]   = src[r,c] + addend[r,c]            (addend may be null)
//   sum[r,c] = x[r,c]                            (may be null; only with an addend)
//   dst[r,c] = (x[r,c] - mean) / sqrt(variance + epsilon) * gamma[c] + beta[c]
//   mean, variance: of x[r,0] ... x[r,columns-1], divided by columns
//   bytes[r,c] = quantize(dst[r,c])              (may be null; only for f32)
//
// src, addend, sum and dst are dense and of one type, f32, bf16 or f16. bytes are quantized as family
// quantize does it; if bytes are given, dst may be null. gamma and beta are f32, or both null,
// which means 1 and 0.
// Arithmetic is f32 and x is not rounded before the norm. The variance is computed around the mean.
// Errors are at most 2^-18 * (1 + max |x - mean| / deviation) times |gamma|, for rows of up to
// 65,536 columns.
// dst and sum may be src or addend; they do not overlap otherwise. Results are the same bits for
// any number of threads.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/types.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct LayerNormCall {
  int64_t rows = 0, columns = 0;
  DataType type = DataType::f32;  // or bf16 or f16
  const void* src = nullptr;
  const void* addend = nullptr;
  void* sum = nullptr;
  void* dst = nullptr;
  uint8_t* bytes = nullptr;
  float scale = 1.0f;  // scale of bytes
  int32_t zero_point = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 1e-5f;
};

// One row of floats. x receives src + addend; it may be src, dst or another buffer.
struct LayerNormRow {
  int64_t columns;
  const float* src;
  const float* addend;
  float* x;
  float* dst;
  const float* gamma;
  const float* beta;
  float epsilon;
};
using LayerNormFunction = void(const LayerNormRow& row);

#define CPUACCEL_KERNEL(name) LayerNormFunction layer_norm_##name;
#include "kernels/layer_norm/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<LayerNormFunction>> layer_norm_kernels();

// Runs the best usable row on all of torch's threads.
void layer_norm(const LayerNormCall& call);

// Runs a given row.
void layer_norm(const LayerNormCall& call, LayerNormFunction* function);

}  // namespace cpuaccel::kernels
