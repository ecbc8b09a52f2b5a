// Gradients of spmm's amax and amin, from the entries that were taken.
//
//   grad_values[e]        = sum over m, k with arg[m,k] = e of src[col[e], k] * grad[m,k]
//   grad_src[col[e], k]  += values[e] * grad[m,k]   for each m, k with e = arg[m,k] < nnz
//
// src and grad_src N x K, grad and arg M x K. Sums are in float for 16 bits, and in an order that
// does not depend on the number of threads.
// Bound: grad and arg are read once each; the rest of it is one access a result, in no order.
#pragma once

#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

struct ArgGradCall {
  Csr csr;
  int64_t K = 0;
  GraphType type = GraphType::f32;
  const void* values = nullptr;  // nnz; null: ones
  const void* src = nullptr;     // N x K; read for grad_values only
  const void* grad = nullptr;    // M x K
  const void* arg = nullptr;     // M x K of the type of the indices; nnz: none
  void* grad_values = nullptr;   // nnz, or null: not wanted
  void* grad_src = nullptr;      // N x K, or null
};

enum class ArgGradFault : uint8_t { none, crow, col, arg };  // arg: an entry of another row

// Everything is checked; after a fault what was written means nothing. All is dense.
ArgGradFault spmm_arg_grad(const ArgGradCall& call);

}  // namespace cpuaccel::kernels
