// Family layer_norm: rows of floats less their mean, over their deviation; and a sum before it.
//
//   x[r,c]   = src[r,c] + addend[r,c]            (addend may be null)
//   sum[r,c] = x[r,c]                            (not null only beside an addend)
//   dst[r,c] = (x[r,c] - mean) / sqrt(variance + epsilon) * gamma[c] + beta[c]
//   mean, variance: of x[r,0] ... x[r,columns-1], divided by columns
//   bytes[r,c] = quantize(dst[r,c])              (may be null; of f32 alone)
//
// src, addend, sum and dst are f32 or bf16, all the same type, dense; bytes are as family quantize
// has them, and dst may be null beside them; x is not rounded before the
// norm. gamma and beta are f32, or null both: 1 and 0. Arithmetic is f32, the variance taken around
// the mean: errors are at most 2^-18 * (1 + max |x - mean| / deviation) times |gamma|, for rows of
// up to 65,536 columns. dst may be src or addend, sum too; they do not overlap otherwise. Results
// are the same bits on any number of threads.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/types.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct LayerNormCall {
  int64_t rows = 0, columns = 0;
  GemmType type = GemmType::f32;  // or bf16
  const void* src = nullptr;
  const void* addend = nullptr;
  void* sum = nullptr;
  void* dst = nullptr;
  uint8_t* bytes = nullptr;
  float scale = 1.0f;  // of bytes
  int32_t zero_point = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 1e-5f;
};

// One row of floats. x gets src + addend; it may be src, dst or neither.
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

#if defined(__x86_64__)
#define CPUACCEL_LAYER_NORM_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_LAYER_NORM_KERNELS(row) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_LAYER_NORM_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) LayerNormFunction layer_norm_##name;
CPUACCEL_LAYER_NORM_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<LayerNormFunction>> layer_norm_kernels();

// By the best usable row, on all of torch's threads.
void layer_norm(const LayerNormCall& call);

// By a given row.
void layer_norm(const LayerNormCall& call, LayerNormFunction* function);

}  // namespace cpuaccel::kernels
