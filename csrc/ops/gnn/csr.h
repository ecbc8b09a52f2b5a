// Converts torch sparse CSR and CSC matrices to the operand of cpuaccel's graph kernels, and checks
// their indices.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/csr/csr.h"

namespace cpuaccel::ops {

// Its tensors are contiguous; `csr` points into them.
struct CsrOperand {
  kernels::Csr csr;
  at::Tensor crow, col, values;
};

// The operand of a 2-d CSR matrix, or of a 2-d CSC matrix: then `csr` is its transpose. nullopt,
// and `reason` set, if cpuaccel's kernels do not support the matrix. The values of the indices are
// not checked: kernels check them.
std::optional<CsrOperand> csr_operand(const at::Tensor& matrix, const char*& reason);

// Throws the error of torch's invariant checks if there is a fault.
void check_fault(kernels::CsrFault fault, const CsrOperand& operand, const char* op);

// Checks the indices of a CSR, CSC, BSR or BSC tensor before a torch kernel, which checks none, and
// throws if one is out of bounds. Ignores tensors of other layouts.
void check_compressed(const at::Tensor& matrix, const char* op);

}  // namespace cpuaccel::ops
