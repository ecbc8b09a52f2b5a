// aten::addmm of a sparse COO matrix and a dense one, which `A @ x` and torch.sparse.mm(A, x) call.
// The entries are sorted by row once, and the index cache keeps the order. Small products are
// summed unsorted: a lookup in the cache would take as long as torch's whole call.

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <array>

#include "kernels/spmm/spmm.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/edges.h"
#include "ops/gnn/rows.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/sparse.h"
#include "ops/torch_compat/tensors.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kCooMm = "sparse_mm";
constexpr auto kCooKey = c10::DispatchKey::SparseCPU;

// The reason for a fallback to torch, or null.
const char* coo_fallback_reason(const at::Tensor& self, const at::Tensor& sparse,
                                const at::Tensor& dense, const at::Scalar& beta,
                                const at::Scalar& alpha) {
  if (sparse.layout() != at::kSparse || !strided_on_cpu(dense) || !strided_on_cpu(self) ||
      dense.is_neg()) {
    return reasons::kLayout;
  }
  const auto type = dense.scalar_type();
  if ((type != at::kFloat && type != at::kDouble) || sparse.scalar_type() != type ||
      self.scalar_type() != type) {
    return reasons::kDtype;
  }
  const std::array sizes{sparse.size(0), dense.size(-1)};
  if (sparse.sparse_dim() != 2 || sparse.dense_dim() != 0 || dense.dim() != 2 ||
      dense.size(0) != sparse.size(1) || !at::is_expandable_to(self.sizes(), sizes)) {
    return reasons::kShape;
  }
  if (sparse._nnz() == 0 || dense.numel() == 0 || sparse.size(0) == 0) {
    return reasons::kEmpty;
  }
  const bool plain = !beta.isSymbolic() && !alpha.isSymbolic() && beta.equal(0) && alpha.equal(1);
  return plain ? nullptr : "beta is not 0, or alpha is not 1";
}

// Up to this number of rows times columns, and of entries times columns, products are summed
// unsorted.
constexpr int64_t kMostUnsorted = 2048;

template <typename Number>
bool add_entries(const at::Tensor& indices, const at::Tensor& values, const at::Tensor& dense,
                 const at::Tensor& out) {
  const auto* rows = indices.const_data_ptr<int64_t>();
  const auto* columns = rows + indices.stride(0);
  const auto* weights = values.const_data_ptr<Number>();
  const auto* src = dense.const_data_ptr<Number>();
  auto* dst = out.mutable_data_ptr<Number>();
  const auto M = static_cast<uint64_t>(out.size(0)), N = static_cast<uint64_t>(dense.size(0));
  const int64_t K = dense.size(1), step = indices.stride(1), values_step = values.stride(0);
  std::fill_n(dst, out.numel(), Number{0});
  for (int64_t e = 0; e < values.size(0); ++e) {
    const auto row = static_cast<uint64_t>(rows[e * step]),
               column = static_cast<uint64_t>(columns[e * step]);  // negative ones are large
    if (row >= M || column >= N) {
      return false;
    }
    const Number weight = weights[e * values_step];
    const Number* from = src + static_cast<int64_t>(column) * dense.stride(0);
    Number* to = dst + static_cast<int64_t>(row) * K;
    for (int64_t k = 0; k < K; ++k) {
      to[k] += weight * from[k];
    }
  }
  return true;
}

// Undefined if the product is larger, or if an index is out of range.
at::Tensor coo_product_of_few(const at::Tensor& sparse, const at::Tensor& dense) {
  const auto* impl = at::sparse::get_sparse_impl(sparse);
  const at::Tensor &indices = impl->indices(), &values = impl->values();
  const int64_t M = sparse.size(0), K = dense.size(1), most = kMostUnsorted / K;
  if (M > most || values.size(0) > most || values.is_neg() || dense.stride(1) != 1) {
    return {};
  }
  at::Tensor out = at::detail::empty_cpu({M, K}, dense.scalar_type());
  const auto add = dense.scalar_type() == at::kFloat ? add_entries<float> : add_entries<double>;
  return add(indices, values, dense, out) ? out : at::Tensor();
}

at::Tensor coo_product(const at::Tensor& sparse, const at::Tensor& dense) {
  CPUACCEL_KERNEL_CALL(sparse_mm);
  if (at::Tensor few = coo_product_of_few(sparse, dense); few.defined()) {
    return few;
  }
  const int64_t M = sparse.size(0), N = sparse.size(1);
  const at::Tensor indices = sparse._indices();
  static constexpr IndexRule kColumns{kCooMm, "column indices of the sparse matrix"};
  static constexpr IndexRule kRows{kCooMm, "row indices of the sparse matrix"};
  const at::Tensor sorted =
      cached_sorted_pair(kColumns, indices.select(0, 1), kRows, indices.select(0, 0), N, M);
  const at::Tensor values =
      weight_in_order(kCooMm, sparse._values(), sorted, M, !sparse.requires_grad());
  const auto edges = edges_in(kCooMm, sorted, N, M);
  const at::Tensor src = dense.contiguous();
  at::Tensor out = at::detail::empty_cpu({M, dense.size(1)}, dense.scalar_type());
  kernels::SpmmCall call;
  call.csr = edges.csr;
  call.K = src.size(1);
  call.type = data_type(src.scalar_type());
  call.values = values.const_data_ptr();
  call.src = src.const_data_ptr();
  call.src_stride = call.K;
  call.dst = out.mutable_data_ptr();
  TORCH_CHECK(kernels::spmm(call) == kernels::CsrFault::none, kCooMm,
              ": the cached order of the sparse matrix was changed");
  return out;
}

template <OpName kOp>
at::Tensor coo_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                     const at::Scalar& beta, const at::Scalar& alpha) {
  const char* reason = coo_fallback_reason(self, mat1, mat2, beta, alpha);
  if (reason == nullptr) {
    return coo_product(mat1, mat2);
  }
  report_fallback(kCooMm, reason);
  return call_torch_under(kCooKey, kOp.text, self, mat1, mat2, beta, alpha).toTensor();
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::addmm", kCooKey, coo_addmm),
};

}  // namespace

}  // namespace cpuaccel::ops
