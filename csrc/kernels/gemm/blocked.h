// gemm's general path: B is packed in panels, which stay in L1 and L2 while blocks of rows of A
// pass by.
#pragma once

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

// Computes element g of the batch.
void gemm_blocked(const GemmCall& call, const GemmKernels& kernels, int64_t g);

}  // namespace cpuaccel::kernels
