// Family extreme_grad: gradients of spmm's amax and amin where equal terms share one, as those of
// torch's scatter_reduce over zeros do.
//
//   t[e,k]         = values[e] * src[col[e],k]
//   share[m,k]     = grad[m,k] / (count of e in row m with t[e,k] == dst[m,k], and one more where
//                    dst[m,k] == 0)
//   grad_src[n,k]  = sum over e with col[e] == n of values[e] * hit[e,k] * share[m,k]
//   grad_values[e] = sum over k of src[col[e],k] * hit[e,k] * share[m,k]
//
// with hit[e,k] = 1 where t[e,k] == dst[m,k] and 0 elsewhere, so a share that is not finite gives
// NaN everywhere in its group, as it does in torch. src and grad_src N x K, dst, grad and share
// M x K, all dense. Sums are in the order of the entries: the same bits on any number of threads.
// Bound: a row of src for each entry, then of dst and of share for each.
#pragma once

#include <span>

#include "kernels/csr/csr.h"
#include "kernels/csr/transpose.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct ExtremeGradCall {
  Csr csr;
  CsrColumns columns;  // of csr, as wide; may be empty without grad_src
  int64_t K = 0;
  GraphType type = GraphType::f32;  // f32 or f64
  const void* values = nullptr;     // nnz; null: ones
  const void* src = nullptr;
  const void* dst = nullptr;   // what spmm returned
  const void* grad = nullptr;  // of dst
  void* share = nullptr;       // for what comes in between
  void* grad_src = nullptr;    // or null: not wanted
  void* grad_values = nullptr;
};

enum class ExtremeGradStep : uint8_t { share, src, values };

// A step for rows [row, row + rows), of csr or, for src, of columns.
using ExtremeGradFunction = void(const ExtremeGradCall& call, ExtremeGradStep step, int64_t row,
                                 int64_t rows);

#if defined(__x86_64__)
#define CPUACCEL_EXTREME_GRAD_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_EXTREME_GRAD_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_EXTREME_GRAD_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) ExtremeGradFunction extreme_grad_##name;
CPUACCEL_EXTREME_GRAD_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<ExtremeGradFunction>> extreme_grad_kernels();

// All of it on all of torch's threads. Indices must have been checked (edge_rows, csr_transpose).
void extreme_grad(const ExtremeGradCall& call, ExtremeGradFunction* function);
void extreme_grad(const ExtremeGradCall& call);  // by the best usable row

}  // namespace cpuaccel::kernels
