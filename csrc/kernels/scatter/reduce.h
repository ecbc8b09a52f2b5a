// Whole reductions by an index: scatter, with what comes before it and after it.
//
//   sum    dst[n,k] = start + sum of src[e,k]
//   mean   dst[n,k] = (start + sum of src[e,k]) / count
//   amax, amin likewise, by scatter's rules
//
// over all e with index[e] == n, in their order. Where dst is included, start is dst[n,k] and is
// one of those counted; where it is not, start is 0, or infinite on the other side. Rows that no
// number names stay as they are.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/scatter/scatter.h"

namespace cpuaccel::kernels {

// How often each of N rows is named; other numbers are passed over.
std::vector<int64_t> index_counts(const void* index, bool wide, int64_t E, int64_t N);

// call.op is not ties; `mean` is for sums.
void scatter_reduce(const ScatterCall& call, bool mean, bool include_dst);

// dst[n,k] = value for each row n that the index names; src is not read.
void fill_named_rows(const ScatterCall& call, double value);

}  // namespace cpuaccel::kernels
