// Family sddmm: sampled dense-dense matrix product, at the entries of a sparse matrix. It is the
// gradient of that matrix's values in spmm.
//
//   dst[e] = sum over k of a[m,k] * b[col[e], k]   for e in [crow[m], crow[m+1])
//
// A mean is divided by the number of entries of row m. a M x K, b N x K. 16-bit types are summed in
// float. The error is at most K * eps times the sum of the absolute values.
// Bound: index and result of each entry, and its row of b.
#pragma once

#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct SddmmCall {
  Csr csr;
  int64_t K = 0;
  DataType type = DataType::f32;  // type of a, b and dst
  bool mean = false;
  const void* a = nullptr;
  const void* b = nullptr;
  int64_t a_stride = 0, b_stride = 0;  // elements from row to row
  void* dst = nullptr;                 // nnz
};

// Computes entries [begin, end), the first of them in `row`. Returns false if a column is not one
// of the N.
using SddmmFunction = bool(const SddmmCall& call, int64_t row, int64_t begin, int64_t end);

#define CPUACCEL_KERNEL(name) SddmmFunction sddmm_##name;
#include "kernels/sddmm/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<SddmmFunction>> sddmm_kernels();

// Computes all entries on all of torch's threads; the same bits for any number of threads.
CPUACCEL_API CsrFault sddmm(const SddmmCall& call, SddmmFunction* function);
CPUACCEL_API CsrFault sddmm(const SddmmCall& call);  // runs the best usable row

}  // namespace cpuaccel::kernels
