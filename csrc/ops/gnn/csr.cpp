#include "ops/gnn/csr.h"

#include "kernels/csr/cut.h"
#include "kernels/scatter/scatter.h"
#include "ops/reasons.h"
#include "ops/torch_compat/sparse.h"

namespace cpuaccel::ops {

using kernels::CsrFault;

std::optional<CsrOperand> csr_operand(const at::Tensor& matrix, const char*& reason) {
  const bool csr = matrix.layout() == at::kSparseCsr;
  if ((!csr && matrix.layout() != at::kSparseCsc) || !matrix.device().is_cpu()) {
    reason = reasons::kLayout;
    return std::nullopt;
  }
  const auto* impl = at::sparse_csr::get_sparse_csr_impl(matrix);
  const at::Tensor& crow = impl->compressed_indices();
  const at::Tensor& col = impl->plain_indices();
  const at::Tensor& values = impl->values();
  if (matrix.dim() != 2 || crow.dim() != 1 || col.dim() != 1 || values.dim() != 1) {
    reason = "sparse matrix has batch or dense dimensions";
    return std::nullopt;
  }
  const int64_t M = matrix.size(csr ? 0 : 1), N = matrix.size(csr ? 1 : 0);
  const auto type = crow.scalar_type();
  if ((type != at::kInt && type != at::kLong) || col.scalar_type() != type ||
      crow.numel() != M + 1 || col.numel() != values.numel() || values.is_neg()) {
    reason = reasons::kIndices;
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

namespace {

void check_fault(CsrFault fault, int64_t nnz, int64_t N, const char* op) {
  TORCH_CHECK(fault != CsrFault::crow, op,
              ": compressed indices of the sparse matrix must ascend from 0 to ", nnz,
              ", the number of its entries");
  TORCH_CHECK(fault != CsrFault::col, op,
              ": plain indices of the sparse matrix must be at least 0 and below ", N);
}

}  // namespace

void check_fault(CsrFault fault, const CsrOperand& operand, const char* op) {
  check_fault(fault, operand.csr.nnz, operand.csr.N, op);
}

void check_compressed(const at::Tensor& matrix, const char* op) {
  const auto layout = matrix.layout();
  const bool by_rows = layout == at::kSparseCsr || layout == at::kSparseBsr;
  const bool blocks = layout == at::kSparseBsr || layout == at::kSparseBsc;
  if (!(by_rows || blocks || layout == at::kSparseCsc) || !matrix.device().is_cpu()) {
    return;
  }
  const auto* impl = at::sparse_csr::get_sparse_csr_impl(matrix);
  const at::Tensor crow = impl->compressed_indices().contiguous();
  const at::Tensor col = impl->plain_indices().contiguous();
  const at::Tensor& values = impl->values();
  const int64_t batches = crow.dim() - 1;  // number of batch dimensions
  const bool wide = crow.scalar_type() == at::kLong;
  TORCH_CHECK(batches >= 0 && col.dim() == batches + 1 && values.dim() > batches + (blocks ? 2 : 0),
              op, ": sizes of the sparse matrix's indices and values do not match");
  const auto blocks_of = [&](bool rows) {
    const int64_t block = blocks ? values.size(batches + (rows ? 1 : 2)) : 1;
    return block > 0 ? matrix.size(batches + (rows ? 0 : 1)) / block : 0;
  };
  const int64_t M = blocks_of(by_rows), N = blocks_of(!by_rows), nnz = col.size(-1);
  TORCH_CHECK(crow.size(-1) == M + 1 && values.size(batches) == nnz &&
                  col.scalar_type() == crow.scalar_type() &&
                  crow.numel() / (M + 1) * nnz == col.numel(),
              op, ": sizes of the sparse matrix's indices and values do not match");
  const auto* crow_data = static_cast<const std::byte*>(crow.const_data_ptr());
  const auto* col_data = static_cast<const std::byte*>(col.const_data_ptr());
  for (int64_t batch = 0; batch < crow.numel() / (M + 1); ++batch) {
    kernels::Csr csr{M, N, nnz, crow_data, col_data, wide};
    check_fault(!kernels::csr_ascends(csr)                          ? CsrFault::crow
                : !kernels::index_within(col_data, wide, nnz, 0, N) ? CsrFault::col
                                                                    : CsrFault::none,
                nnz, N, op);
    crow_data += (M + 1) * static_cast<int64_t>(crow.itemsize());
    col_data += nnz * static_cast<int64_t>(col.itemsize());
  }
}

}  // namespace cpuaccel::ops
