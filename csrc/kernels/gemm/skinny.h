// Few rows of A or few columns of B: the other operand is read once, where it lies.
#pragma once

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

// B has unit stride along k (a weight of torch's linear), and M is small.
void gemm_dot(const GemmCall& call, const GemmKernels& kernels);

}  // namespace cpuaccel::kernels
