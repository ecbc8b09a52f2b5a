// Gradients of spmm's amax and amin, from `arg`, the entries that were selected.
//
//   grad_values[e]        = sum over m, k with arg[m,k] = e of src[col[e], k] * grad[m,k]
//   grad_src[col[e], k]  += values[e] * grad[m,k]   for each m, k with e = arg[m,k] < nnz
//
// src and grad_src N x K, grad and arg M x K. 16-bit types are summed in float. The order of sums
// does not depend on the number of threads.
// Bound: grad and arg are read once each, and each result takes one random access.
#pragma once

#include "base/api.h"
#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {

struct ArgGradCall {
  Csr csr;
  int64_t K = 0;
  DataType type = DataType::f32;
  const void* values = nullptr;  // nnz; null: ones
  const void* src = nullptr;     // N x K; read for grad_values only
  const void* grad = nullptr;    // M x K
  const void* arg = nullptr;     // M x K, of the index type; nnz means none
  void* grad_values = nullptr;   // nnz; null if not wanted
  void* grad_src = nullptr;      // N x K; null if not wanted
};

enum class ArgGradFault : uint8_t { none, crow, col, arg };  // arg: an entry of another row

// Checks everything; after a fault the written values are unspecified. All matrices are dense.
CPUACCEL_API ArgGradFault spmm_arg_grad(const ArgGradCall& call);

}  // namespace cpuaccel::kernels
