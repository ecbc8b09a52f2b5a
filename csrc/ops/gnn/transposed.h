// Transposed sparse matrices: entries sorted by column, cached for the next backward.
#pragma once

#include "kernels/csr/transpose.h"
#include "ops/gnn/csr.h"

namespace cpuaccel::ops {

struct Transposed {
  at::Tensor indices;  // owns the memory of the others
  kernels::CsrColumns columns;
  kernels::Csr csr;  // the transposed matrix
};

// From the index cache; the key is `operand`'s indices. Every index has been checked. Throws if one
// is out of range.
Transposed transposed(const CsrOperand& operand, const char* op);

// The operand's values in that order, divided by the number of entries of their row if `mean`.
// Their type is the operand's, but float for 16-bit types. From the index cache, unless they are
// `learned`, and so new in each call.
at::Tensor transposed_values(const CsrOperand& operand, const Transposed& by_columns, bool mean,
                             bool learned);

}  // namespace cpuaccel::ops
