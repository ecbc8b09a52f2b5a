// Family edge_softmax: softmax over the edges of each node (as in GAT), for H heads, and its
// gradient.
//
// With e in [crow[m], crow[m+1]) and n = col[e]:
//
//   softmax   dst[e,h] = exp(s[e,h] - max) / (sum + 1e-16), max and sum over the e of m and
//             s[e,h] = scores[e,h], or leaky(src[n,h] + own[m,h]) if there are no scores
//   gradient  g = alpha[e,h] * (grad[e,h] - sum over the e of m of alpha[e,h] * grad[e,h]);
//             dst[e,h] = g for scores; for src and own it is g * leaky'(src[n,h] + own[m,h]), and
//             dst_own[m,h] its sum over the e of m
//   by_source dst[n,h] = sum over i in [crow[n], crow[n+1]) of scores[perm[i],h]
//
// leaky(z) = z if z > 0, otherwise slope * z. All tensors are dense and of one type.
// Error: some eps of dst; values below exp(-87) of the largest come out as up to 2^-125. The order
// of sums depends on H, and on how long rows are cut (csr/parts.h), so that the bits do not depend
// on the number of threads.
// Bound: an exp for each number.
#pragma once

#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// The steps after by_source compute a part of a long row. With numbers of the whole row in of_row,
// H of them, and those of the part in dst_own:
//
//   most            dst[e,h] = s[e,h]; dst_own[h] = max of them
//   exps            dst[e,h] = exp(dst[e,h] - of_row[h]); dst_own[h] = their sum
//   scale           dst[e,h] *= of_row[h]
//   gradient_sum    dst_own[h] = sum of alpha[e,h] * grad[e,h]
//   gradient_apply  the gradient, where of_row[h] is the sum; dst_own[h] = sum of dst[e,h]
enum class EdgeSoftmaxStep : uint8_t {
  softmax,
  gradient,
  by_source,
  most,
  exps,
  scale,
  gradient_sum,
  gradient_apply
};

struct EdgeSoftmaxCall {
  EdgeSoftmaxStep step = EdgeSoftmaxStep::softmax;
  Csr csr;
  const void* perm = nullptr;  // nnz, of the index type; by_source only
  int64_t H = 0;
  DataType type = DataType::f32;  // f32 or f64
  double slope = 0;
  const void* scores = nullptr;                  // nnz x H, or null
  const void *src = nullptr, *own = nullptr;     // N x H, M x H
  const void *alpha = nullptr, *grad = nullptr;  // nnz x H
  void* dst = nullptr;
  void* dst_own = nullptr;  // M x H, if there are no scores
  const void* of_row = nullptr;
};

// Computes rows [row, row + rows). scratch has room for 2 H numbers.
using EdgeSoftmaxFunction = void(const EdgeSoftmaxCall& call, int64_t row, int64_t rows,
                                 void* scratch);

#define CPUACCEL_KERNEL(name) EdgeSoftmaxFunction edge_softmax_##name;
#include "kernels/edge_softmax/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<EdgeSoftmaxFunction>> edge_softmax_kernels();

// Computes all rows on all of torch's threads. False if crow does not ascend. Other indices must
// have been checked (edge_rows, csr_transpose).
CPUACCEL_API bool edge_softmax(const EdgeSoftmaxCall& call, EdgeSoftmaxFunction* function);
CPUACCEL_API bool edge_softmax(const EdgeSoftmaxCall& call);  // uses the best usable row

}  // namespace cpuaccel::kernels
