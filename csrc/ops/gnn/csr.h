// A sparse matrix of torch as the graph kernels take it.
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

// The parts of a two-dimensional matrix of layout CSR, or of layout CSC: then `csr` is the
// transposed one. Nothing, and `why`, where our kernels do not take it. What the indices are is for
// the kernels to check.
std::optional<CsrOperand> csr_operand(const at::Tensor& matrix, const char*& why);

bool is_graph_type(at::ScalarType type);
kernels::GraphType graph_type(at::ScalarType type);  // of a type that is one

// Throws what torch's checks of invariants throw, if there is a fault.
void check_fault(kernels::CsrFault fault, const CsrOperand& operand, const char* op);

// Reads the indices of a tensor of layout CSR, CSC, BSR or BSC before one of torch's kernels, which
// check none, and throws if they would lead outside of it. Takes tensors of other layouts as they
// are.
void check_compressed(const at::Tensor& matrix, const char* op);

}  // namespace cpuaccel::ops
