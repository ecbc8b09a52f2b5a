// Products of few rows: each panel of the packed weights is read from memory once.
#pragma once

#include "kernels/gemm_wq/gemm_wq.h"

namespace cpuaccel::kernels {

// The rows of a tile. With more, unpacking a panel takes less time than multiplying its codes
// twice.
inline constexpr int64_t kFewRows = 8;

void few_rows(const GemmWqCall& call, const GemmWqKernels& kernels);

// Row m of src as f32: where it lies, or converted into the buffer.
const float* row_of_floats(const GemmWqCall& call, int64_t m, float* buffer);

// Writes rows m0 to m0 + rows of dst, columns n0 to n0 + 32. Overwrites `sums`.
void store_rows(const GemmWqCall& call, float* sums, int64_t m0, int64_t rows, int64_t n0);

}  // namespace cpuaccel::kernels
