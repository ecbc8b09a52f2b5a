// Family gemm: matrix products (GEMM) of f32, bf16 and f16 matrices in f32 arithmetic.
//
//   dst[g,m,n] = after(beta * c[g,m,n] + bias + alpha * sum over k of a[g,m,k] * b[g,k,n])
//
//   g < batch, m < M, n < N, k < K, all int64; bias is bias[n], bias[m] or nothing
//   a, b, c, dst, bias: f32, bf16 or f16 each; sums are f32, rounded once to dst
//   a, b, c: any strides, also 0 and negative; dst: column stride 1, rows that do not overlap
//   c is dst itself unless it is given; with beta = 0 it is not read
//   with K = 0, a and b are not read, nor with alpha = 0 if both are f32. With alpha = 0 and 16-bit
//   operands a NaN among them propagates. All of this is as in torch.
//
// Error of an f32 result: at most (K + 4) * 2^-24 * (1 + 2^-10) times the sum of the magnitudes of
// all terms, if no term overflows. The order of a sum depends on M, N, K, batch, the types, the
// strides and the row, never on the number of threads: results are the same bits in every run.
//
// dst may be c with the same strides; it overlaps nothing else.
//
// Bound: M * N * K multiply-adds, or the bytes of a, b and dst once. The list in paths.cpp says
// which shape takes which path; pack.h and packed.h say how callers can pack B.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/gemm/types.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct GemmKernels;  // kernels/gemm/kernels.h
using GemmFunction = const GemmKernels&();

#define CPUACCEL_KERNEL(name) GemmFunction gemm_##name;
#include "kernels/gemm/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<GemmFunction>> gemm_kernels();

// Uses the best usable row and all of torch's threads.
CPUACCEL_API void gemm(const GemmCall& call);

// Uses the given row.
CPUACCEL_API void gemm(const GemmCall& call, GemmFunction* row);

}  // namespace cpuaccel::kernels
