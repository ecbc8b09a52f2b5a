#include "ops/gnn/csr.h"

#include <ATen/SparseCsrTensorUtils.h>

namespace cpuaccel::ops {

using kernels::CsrFault;
using kernels::GraphType;

bool is_graph_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
}

GraphType graph_type(at::ScalarType type) {
  return type == at::kFloat      ? GraphType::f32
         : type == at::kDouble   ? GraphType::f64
         : type == at::kBFloat16 ? GraphType::bf16
                                 : GraphType::f16;
}

std::optional<CsrOperand> csr_operand(const at::Tensor& matrix, const char*& why) {
  const bool csr = matrix.layout() == at::kSparseCsr;
  if ((!csr && matrix.layout() != at::kSparseCsc) || !matrix.device().is_cpu()) {
    why = "layout";
    return std::nullopt;
  }
  const auto* impl = at::sparse_csr::get_sparse_csr_impl(matrix);
  const at::Tensor& crow = impl->compressed_indices();
  const at::Tensor& col = impl->plain_indices();
  const at::Tensor& values = impl->values();
  if (matrix.dim() != 2 || crow.dim() != 1 || col.dim() != 1 || values.dim() != 1) {
    why = "batches or dense dimensions";
    return std::nullopt;
  }
  const int64_t M = matrix.size(csr ? 0 : 1), N = matrix.size(csr ? 1 : 0);
  const auto type = crow.scalar_type();
  if ((type != at::kInt && type != at::kLong) || col.scalar_type() != type ||
      crow.numel() != M + 1 || col.numel() != values.numel() || values.is_neg()) {
    why = "indices";
    return std::nullopt;
  }
  CsrOperand operand{{}, crow.contiguous(), col.contiguous(), values.contiguous()};
  operand.csr = {M,
                 N,
                 col.numel(),
                 operand.crow.const_data_ptr(),
                 operand.col.const_data_ptr(),
                 type == at::kLong};
  return operand;
}

void check_fault(CsrFault fault, const CsrOperand& operand, const char* op) {
  TORCH_CHECK(fault != CsrFault::crow, op,
              ": compressed indices of the sparse matrix must ascend from 0 to ", operand.csr.nnz,
              ", the number of its entries");
  TORCH_CHECK(fault != CsrFault::col, op,
              ": plain indices of the sparse matrix must be at least 0 and below ", operand.csr.N);
}

}  // namespace cpuaccel::ops
