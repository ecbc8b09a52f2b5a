// Family spmm: sparse-dense matrix product with sum, mean, amax or amin reduction.
//
//   dst[m,k] = reduce over e in [crow[m], crow[m+1]) of values[e] * src[col[e], k]
//   arg[m,k] = the e that amax or amin selected: the first of equal ones, but the last NaN; nnz if
//              the row has no entries, or only products of -inf for amax or +inf for amin
//
// src N x K, dst M x K. Rows without entries give 0 for every reduction. NaN wins over any number.
// 16-bit types are summed in float, others in their own type. The error of a sum of n terms is at
// most n * eps times the sum of their absolute values; mean is the sum over n, rounded again. amax
// and amin are exact except for the rounding of each product; of zeros of both signs either may be
// the result.
//
// Rows of more than some thousand entries are split into parts, which are added up in order. The
// split depends only on the matrix and K: results are the same bits for any number of threads.
// Bound: index and value of each entry, and its row of src, read from the cache that src fits.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"
#include "kernels/reduce.h"

namespace cpuaccel::kernels {

struct SpmmCall {
  Csr csr;
  int64_t K = 0;
  DataType type = DataType::f32;  // type of src, dst and, unless they are wide, values
  Reduce reduce = Reduce::sum;
  const void* values = nullptr;  // nnz; null: ones
  bool wide_values = false;      // values are float although the type has 16 bits
  const void* src = nullptr;
  int64_t src_stride = 0;  // elements from row to row
  void* dst = nullptr;     // dense
  void* arg = nullptr;     // M x K, of the index type, dense; only for amax and amin; or null
};

// A piece of work: whole rows of dst, or a part of one row.
struct SpmmWork {
  int64_t row = 0, rows = 0;
  // If partial is not null: the K results of entries [begin, end) go there, neither divided nor
  // rounded, and to partial_arg if the call wants arg. The results of amin are negated.
  int64_t begin = 0, end = 0;
  void* partial = nullptr;         // float, or double for f64
  int64_t* partial_arg = nullptr;  // nnz means none
};

// Maximum number of entries of a row or a part. Kernels check the columns: they return false if one
// is not one of the N, and dst is then unfinished.
inline constexpr int64_t kSpmmMostEntries = 1 << 20;
using SpmmFunction = bool(const SpmmCall& call, const SpmmWork& work);

#define CPUACCEL_KERNEL(name) SpmmFunction spmm_##name;
#include "kernels/spmm/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<SpmmFunction>> spmm_kernels();

// Runs on all of torch's threads. dst must not overlap src or values.
CPUACCEL_API CsrFault spmm(const SpmmCall& call, SpmmFunction* function);
CPUACCEL_API CsrFault spmm(const SpmmCall& call);  // runs the best usable row

}  // namespace cpuaccel::kernels
