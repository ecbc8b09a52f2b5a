// Family rotary: rotary position embedding of the heads of queries or keys, in halves.
//
//   dst[i]       = src[i] * cos[i] - src[i + R/2] * sin[i]              for i < R/2
//   dst[i + R/2] = src[i + R/2] * cos[i + R/2] + src[i] * sin[i + R/2]
//   dst[i]       = src[i]                                              for R <= i < D
//
// src and dst are N x H x T x D of one type, f32, bf16 or f16, with any strides but adjacent
// elements of a head. cos and sin are N x T x R, of the same type or f32, with any strides but
// adjacent elements; a stride of 0 repeats them. R is even, at most D. dst and src do not overlap.
// Arithmetic is f32, and dst is rounded once. Errors are at most 2^-22 of the sum of both products'
// absolute values. Results are the same bits for any number of threads.
// Bound: each number read once and written once.
#pragma once

#include <cstdint>
#include <span>

#include "base/data_type.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Element (n, h, t, i) is at data[n * n_stride + h * h_stride + t * t_stride + i].
struct RotaryHeads {
  const void* data = nullptr;
  int64_t n_stride = 0, h_stride = 0, t_stride = 0;
};

// Element (n, t, i) is at data[n * n_stride + t * t_stride + i].
struct RotaryTable {
  const void* data = nullptr;
  DataType type = DataType::f32;
  int64_t n_stride = 0, t_stride = 0;
};

struct RotaryCall {
  int64_t N = 0, H = 0, T = 0, D = 0, R = 0;
  DataType type = DataType::f32;
  RotaryHeads src, dst;
  RotaryTable cos, sin;
};

// The first 2 * half elements of one head, as floats.
struct RotaryRow {
  int64_t half;
  const float *src, *cos, *sin;
  float* dst;
};
using RotaryFunction = void(const RotaryRow& row);

#define CPUACCEL_KERNEL(name) RotaryFunction rotary_##name;
#include "kernels/rotary/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<RotaryFunction>> rotary_kernels();

// Runs the best usable row on all of torch's threads.
void rotary(const RotaryCall& call);

// Runs a given row.
void rotary(const RotaryCall& call, RotaryFunction* function);

}  // namespace cpuaccel::kernels
