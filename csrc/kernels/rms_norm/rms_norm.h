// Family rms_norm: RMS normalization of rows of floats, with an optional addition before it and an
// optional quantization after it, as family layer_norm has them.
//
//   x[r,c]   = src[r,c] + addend[r,c]
//   sum[r,c] = x[r,c]
//   dst[r,c] = x[r,c] / sqrt(mean of x[r,0]^2 ... x[r,columns-1]^2 + epsilon)
//              * (weights[c] + weight_offset)
//   bytes[r,c] = quantize(dst[r,c])
//
// Operands, types and what may be null: as in layer_norm/layer_norm.h. weights are f32; null means
// that dst is not multiplied by anything. Gemma's weights have the offset 1, those of other models
// 0. Arithmetic is f32; x is not rounded before the norm, and dst is rounded once.
// Errors are at most 2^-20 * |dst|, for rows of up to 65,536 columns whose squares do not overflow.
// Results are the same bits for any number of threads.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"
#include "kernels/norm_rows.h"

namespace cpuaccel::kernels {

struct RmsNormCall : NormRows {
  const float* weights = nullptr;
  float weight_offset = 0.0f;
  float epsilon = 1e-6f;
};

// One row of floats. x receives src + addend; it may be src, dst or another buffer.
struct RmsNormRow {
  int64_t columns;
  const float* src;
  const float* addend;
  float* x;
  float* dst;
  const float* weights;
  float weight_offset;
  float epsilon;
};
using RmsNormFunction = void(const RmsNormRow& row);

#define CPUACCEL_KERNEL(name) RmsNormFunction rms_norm_##name;
#include "kernels/rms_norm/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<RmsNormFunction>> rms_norm_kernels();

// Runs the best usable row on all of torch's threads.
void rms_norm(const RmsNormCall& call);

// Runs a given row.
void rms_norm(const RmsNormCall& call, RmsNormFunction* function);

}  // namespace cpuaccel::kernels
