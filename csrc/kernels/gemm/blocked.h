// The general way: B in packed panels, shared by all threads, times blocks of rows of A.
#pragma once

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

void gemm_blocked(const GemmCall& call, const GemmKernels& kernels);

}  // namespace cpuaccel::kernels
