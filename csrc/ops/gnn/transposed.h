// Sparse matrices by their columns, sorted once and kept for the next backward.
#pragma once

#include "kernels/csr/transpose.h"
#include "ops/gnn/csr.h"

namespace cpuaccel::ops {

struct Transposed {
  at::Tensor indices;  // owns what the others point to
  kernels::CsrColumns columns;
  kernels::Csr csr;  // the transposed matrix
};

// From the index cache, by `operand`'s indices; every one of them has been read and checked. Throws
// if one is bad.
Transposed transposed(const CsrOperand& operand, const char* op);

// The operand's values in that order, divided by the entries of their row if `mean`: of its type,
// but float for 16 bits. From the index cache unless they are `learned`, and so new in each call.
at::Tensor transposed_values(const CsrOperand& operand, const Transposed& by_columns, bool mean,
                             bool learned);

}  // namespace cpuaccel::ops
