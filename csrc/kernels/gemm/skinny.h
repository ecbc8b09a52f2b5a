// gemm for few rows of A or few columns of B (matrix-vector products): the other operand is read
// once, in place. Each function computes element g of the batch.
#pragma once

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

// Few rows; b.row_stride is 1, as in the weights of torch's linear.
void gemm_dot(const GemmCall& call, const GemmKernels& kernels, int64_t g);

// Few columns; a.column_stride is 1. gemm_dot with A and B swapped.
void gemm_dot_columns(const GemmCall& call, const GemmKernels& kernels, int64_t g);

// At most kRowsMost rows; b.column_stride is 1.
void gemm_rows(const GemmCall& call, const GemmKernels& kernels, int64_t g);

}  // namespace cpuaccel::kernels
