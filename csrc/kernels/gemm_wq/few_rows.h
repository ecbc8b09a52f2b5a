// Products of few rows: each panel of the packed weights is read once.
#pragma once

#include "kernels/gemm_wq/gemm_wq.h"

namespace cpuaccel::kernels {

inline constexpr int64_t kFewRows = 8;  // rows of a tile

void few_rows(const GemmWqCall& call, const GemmWqKernels& kernels);

}  // namespace cpuaccel::kernels
