// Complete scatter_reduce operations: scatter with initialization of dst and division for means.
//
//   sum    dst[n,k] = start + sum of src[e,k]
//   mean   dst[n,k] = (start + sum of src[e,k]) / count
//   amax, amin likewise, by scatter's rules
//
// over all e with index[e] == n, in order. If dst is included, start is dst[n,k], which counts as
// one term. Otherwise start is 0 for sums, 1 for products, -inf for amax and +inf for amin. Rows
// that do not occur in the index are unchanged.
#pragma once

#include <cstdint>
#include <vector>

#include "base/api.h"
#include "kernels/scatter/scatter.h"

namespace cpuaccel::kernels {

// How often each of N rows occurs in the index. Other indices are skipped.
std::vector<int64_t> index_counts(const void* index, bool wide, int64_t E, int64_t N);

// call.op must not be ties; `mean` applies to sums.
CPUACCEL_API void scatter_reduce(const ScatterCall& call, bool mean, bool include_dst);

// Sets dst[n,k] = value for each row n in the index; src is not read.
CPUACCEL_API void fill_named_rows(const ScatterCall& call, double value);

}  // namespace cpuaccel::kernels
