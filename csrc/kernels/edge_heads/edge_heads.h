// Family edge_heads: products and sums along edges for graph attention with several heads (GAT,
// GATv2), and their gradients.
//
// Features are rows of H heads of C columns. With e in [crow[m], crow[m+1]), n = col[e], p =
// perm[e] (or e if there is no perm), z = own[m,h,c] + src[n,h,c], leaky(z) = z if z > 0, otherwise
// slope * z:
//
//   sum         dst[m,h,c] = sum over e of weights[p,h] * src[n,h,c]
//   dot         dst[p,h]   = sum over c of own[m,h,c] * src[n,h,c]
//   sum_dot     both: dst = sum, dst_dot = dot
//   score       dst[p,h]   = sum over c of att[h,c] * leaky(z)
//   score_grad  dst[m,h,c] = sum over e of weights[p,h] * att[h,c] * leaky'(z)
//               dst_att[m,h,c] = sum over e of weights[p,h] * leaky(z), if wanted
//
// All tensors are dense and of one type. Sums over edges are in the order of the edges, and those
// of long rows are sums of parts (csr/parts.h), so that the bits do not depend on the number of
// threads. A sum of n terms is off by at most n * eps times the
// sum of their absolute values.
// Bound: a row of src for each edge, from the cache that src fits.
#pragma once

#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

enum class EdgeHeadsStep : uint8_t { sum, dot, sum_dot, score, score_grad };

struct EdgeHeadsCall {
  EdgeHeadsStep step = EdgeHeadsStep::sum;
  Csr csr;
  const void* perm = nullptr;  // nnz, of the index type
  int64_t H = 0, C = 0;
  DataType type = DataType::f32;  // f32 or f64
  double slope = 0;
  const void* weights = nullptr;  // nnz x H
  const void* own = nullptr;      // M x H x C
  const void* src = nullptr;      // N x H x C
  const void* att = nullptr;      // H x C
  void* dst = nullptr;
  void* dst_dot = nullptr;  // nnz x H; sum_dot only
  void* dst_att = nullptr;  // M x H x C, or null
};

// Computes rows [row, row + rows).
using EdgeHeadsFunction = void(const EdgeHeadsCall& call, int64_t row, int64_t rows);

#define CPUACCEL_KERNEL(name) EdgeHeadsFunction edge_heads_##name;
#include "kernels/edge_heads/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<EdgeHeadsFunction>> edge_heads_kernels();

// Computes all rows on all of torch's threads. Indices must have been checked (edge_rows,
// csr_transpose).
CPUACCEL_API void edge_heads(const EdgeHeadsCall& call, EdgeHeadsFunction* function);
CPUACCEL_API void edge_heads(const EdgeHeadsCall& call);  // uses the best usable row

}  // namespace cpuaccel::kernels
