// Family spmm_amax_grad: gradients of spmm's amax and amin, which equal terms share as in torch's
// scatter_reduce over zeros.
//
//   t[e,k]         = values[e] * src[col[e],k]
//   share[m,k]     = grad[m,k] / (number of e in row m with t[e,k] == dst[m,k], plus one if
//                    dst[m,k] == 0)
//   grad_src[n,k]  = sum over e with col[e] == n of values[e] * hit[e,k] * share[m,k]
//   grad_values[e] = sum over k of src[col[e],k] * hit[e,k] * share[m,k]
//
// with hit[e,k] = 1 if t[e,k] == dst[m,k], otherwise 0. A share that is not finite thus gives NaN
// everywhere in its group, as in torch. src and grad_src are N x K; dst, grad and share are M x K,
// all dense. Sums are in the order of the entries, and those of long rows are sums of parts
// (csr/parts.h), so that the bits do not depend on the number of threads.
// Bound: a row of src for each entry, then of dst and of share for each.
#pragma once

#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/csr/transpose.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct SpmmAmaxGradCall {
  Csr csr;
  CsrColumns columns;  // of csr, with the same index type; may be empty without grad_src
  int64_t K = 0;
  DataType type = DataType::f32;  // f32 or f64
  const void* values = nullptr;   // nnz; null: ones
  const void* src = nullptr;
  const void* dst = nullptr;   // what spmm returned
  const void* grad = nullptr;  // gradient of dst
  void* share = nullptr;       // memory for the intermediate result
  void* grad_src = nullptr;    // or null, if not wanted
  void* grad_values = nullptr;
};

// `counts` writes the counts of a part of a row, without the one for 0, to share.
enum class SpmmAmaxGradStep : uint8_t { share, src, values, counts };

// Runs a step for rows [row, row + rows) of csr, or of columns if the step is src.
using SpmmAmaxGradFunction = void(const SpmmAmaxGradCall& call, SpmmAmaxGradStep step, int64_t row,
                                  int64_t rows);

#define CPUACCEL_KERNEL(name) SpmmAmaxGradFunction spmm_amax_grad_##name;
#include "kernels/spmm_amax_grad/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<SpmmAmaxGradFunction>> spmm_amax_grad_kernels();

// Computes everything on all of torch's threads. Indices must have been checked (edge_rows,
// csr_transpose).
CPUACCEL_API void spmm_amax_grad(const SpmmAmaxGradCall& call, SpmmAmaxGradFunction* function);
CPUACCEL_API void spmm_amax_grad(const SpmmAmaxGradCall& call);  // uses the best usable row

}  // namespace cpuaccel::kernels
