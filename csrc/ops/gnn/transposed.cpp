#include "ops/gnn/transposed.h"

#include <ATen/EmptyTensor.h>

#include <array>

#include "ops/data_type.h"
#include "ops/tensor_cache.h"

namespace cpuaccel::ops {
namespace {

// One tensor holds all three arrays: row, perm, ccol.
kernels::CsrColumns columns_in(const at::Tensor& indices, int64_t nnz) {
  auto* first = static_cast<std::byte*>(indices.mutable_data_ptr());
  const auto bytes = static_cast<int64_t>(indices.itemsize()) * nnz;
  return {.ccol = first + 2 * bytes,
          .row = first,
          .perm = first + bytes,
          .wide = indices.scalar_type() == at::kLong};
}

}  // namespace

Transposed transposed(const CsrOperand& operand, const char* op) {
  const auto& csr = operand.csr;
  const std::array sources{&operand.crow, &operand.col};
  Transposed result;
  result.indices = index_cache().get(sources, csr.N, [&] {
    const bool narrow =
        kernels::fits_int32(csr.nnz) && kernels::fits_int32(csr.M) && kernels::fits_int32(csr.N);
    at::Tensor indices =
        at::detail::empty_cpu({2 * csr.nnz + csr.N + 1}, narrow ? at::kInt : at::kLong);
    check_fault(kernels::csr_transpose(csr, columns_in(indices, csr.nnz)), operand, op);
    return indices;
  });
  result.columns = columns_in(result.indices, csr.nnz);
  result.csr = {
      csr.N, csr.M, csr.nnz, result.columns.ccol, result.columns.row, result.columns.wide};
  return result;
}

at::Tensor transposed_values(const CsrOperand& operand, const Transposed& by_columns, bool mean,
                             bool learned) {
  const auto make = [&]() -> at::Tensor {
    const auto type = operand.values.scalar_type();
    at::Tensor values =
        at::detail::empty_cpu({operand.csr.nnz}, type == at::kDouble ? type : at::kFloat);
    kernels::csr_columns_values(operand.csr, by_columns.columns, operand.values.const_data_ptr(),
                                data_type(type), mean, values.mutable_data_ptr());
    return values;
  };
  if (learned) {
    return make();
  }
  const std::array sources{&operand.values};
  return index_cache().get(sources, mean ? 1 : 0, make, &by_columns.indices);
}

}  // namespace cpuaccel::ops
