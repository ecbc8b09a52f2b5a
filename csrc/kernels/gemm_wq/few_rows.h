// Products of few rows: each panel of the packed weights is read from memory once.
#pragma once

#include "kernels/gemm_wq/gemm_wq.h"

namespace cpuaccel::kernels {

// From more rows on, unpacking a panel takes less time than multiplying its codes by each tile of
// rows.
inline constexpr int64_t kFewRows = 16;

void few_rows(const GemmWqCall& call, const GemmWqKernels& kernels);

}  // namespace cpuaccel::kernels
