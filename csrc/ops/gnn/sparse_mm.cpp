// mm, addmm, addmv and their out= variants with a sparse CSR or CSC matrix: `A @ x`, `A @ v`,
// torch.sparse.mm(A, x), and their derivatives with respect to x, for which torch transposes A.
//
// torch's kernels check no index, so the indices are checked before a fallback.

#include <ATen/EmptyTensor.h>

#include <array>

#include "kernels/spmm/spmm.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/rows.h"
#include "ops/gnn/transposed.h"
#include "ops/kernel_call.h"
#include "ops/overlap.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/tensors.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kCsrMm = "sparse_mm";
constexpr auto kCsrKey = c10::DispatchKey::SparseCsrCPU;

// nullopt, with `reason` set, if torch has to run the call.
std::optional<CsrOperand> mm_operand(const at::Tensor& sparse, const at::Tensor& dense,
                                     const char*& reason) {
  auto operand = csr_operand(sparse, reason);
  if (!operand) {
    return std::nullopt;
  }
  const auto type = dense.scalar_type();
  if (!strided_on_cpu(dense) || dense.is_neg()) {
    reason = reasons::kLayout;
  } else if (!is_graph_type(type) || operand->values.scalar_type() != type) {
    reason = reasons::kDtype;
  } else if (dense.dim() != 2 || dense.size(0) != sparse.size(1)) {
    reason = reasons::kShape;
  } else if (operand->csr.nnz == 0 || dense.numel() == 0 || sparse.size(0) == 0) {
    reason = reasons::kEmpty;
  } else {
    return operand;
  }
  return std::nullopt;
}

void product_into(const CsrOperand& operand, const at::Tensor& sparse, const at::Tensor& dense,
                  const at::Tensor& out) {
  CPUACCEL_KERNEL_CALL(sparse_mm);
  const auto src =
      dense.stride(1) == 1 && dense.stride(0) >= dense.size(1) ? dense : dense.contiguous();
  kernels::SpmmCall call;
  call.csr = operand.csr;
  call.K = src.size(1);
  call.type = data_type(src.scalar_type());
  call.values = operand.values.const_data_ptr();
  call.src = src.const_data_ptr();
  call.src_stride = src.stride(0);
  call.dst = out.mutable_data_ptr();
  if (sparse.layout() == at::kSparseCsr) {
    check_fault(kernels::spmm(call), operand, kCsrMm);
    return;
  }
  const auto rows = transposed(operand, kCsrMm);
  const auto values = transposed_values(operand, rows, false, sparse.requires_grad());
  call.csr = rows.csr;
  call.values = values.const_data_ptr();
  call.wide_values = values.scalar_type() != src.scalar_type();
  check_fault(kernels::spmm(call), operand, kCsrMm);
}

at::Tensor product(const CsrOperand& operand, const at::Tensor& sparse, const at::Tensor& dense) {
  at::Tensor out = at::detail::empty_cpu({sparse.size(0), dense.size(1)}, dense.scalar_type());
  product_into(operand, sparse, dense, out);
  return out;
}

// beta * self + alpha * product; self may be anything that broadcasts to the product.
struct Sum {
  const at::Tensor& self;
  const at::Scalar& beta;
  const at::Scalar& alpha;

  // The reason for a fallback to torch, or null.
  const char* fallback_reason(at::IntArrayRef sizes, at::ScalarType type) const {
    const auto plain = [](const at::Scalar& x) { return !x.isSymbolic() && !x.isComplex(); };
    if (!plain(beta) || !plain(alpha) || alpha.equal(0)) {
      return "unsupported beta or alpha";
    }
    return strided_on_cpu(self) && self.scalar_type() == type &&
                   at::is_expandable_to(self.sizes(), sizes)
               ? nullptr
               : "unsupported addend";
  }
  bool is_product() const { return beta.equal(0) && alpha.equal(1); }
  void add_to(at::Tensor& product) const {
    if (!alpha.equal(1)) {
      product.mul_(alpha);
    }
    if (!beta.equal(0)) {
      product.add_(self, beta);
    }
  }
};

// Whether the kernel may write to `out` itself.
bool takes_result(const at::Tensor& out, at::IntArrayRef sizes, const at::Tensor& dense,
                  const CsrOperand& operand) {
  return out.is_contiguous() && out.sizes() == sizes && apart(out, dense) &&
         apart(out, operand.values) && apart(out, operand.crow) && apart(out, operand.col);
}

// torch rejects an `out` without elements here, unlike elsewhere. For 16-bit types torch has no
// kernel, so no error has to be preserved.
void resize_half(const at::Tensor& out, at::IntArrayRef sizes, at::ScalarType type) {
  if ((type == at::kBFloat16 || type == at::kHalf) && out.numel() == 0 && strided_on_cpu(out) &&
      out.scalar_type() == type) {
    at::native::resize_output(out, sizes);
  }
}

const char* out_fallback_reason(const at::Tensor& out, at::IntArrayRef sizes, at::ScalarType type) {
  return strided_on_cpu(out) && out.sizes() == sizes && out.scalar_type() == type && !out.is_neg()
             ? nullptr
             : reasons::kOut;
}

// Counts a fallback, and checks the indices that torch's kernels trust.
template <typename... Tensors>
void fall_back(const char* reason, const Tensors&... tensors) {
  report_fallback(kCsrMm, reason);
  (check_compressed(tensors, kCsrMm), ...);
}

template <OpName kOp>
at::Tensor mm(const at::Tensor& self, const at::Tensor& mat2) {
  const char* reason = "";
  if (const auto operand = mm_operand(self, mat2, reason)) {
    return product(*operand, self, mat2);
  }
  fall_back(reason, self, mat2);
  return call_torch_under(kCsrKey, kOp.text, self, mat2).toTensor();
}

template <OpName kOp>
at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  const char* reason = "";
  if (const auto operand = mm_operand(mat1, mat2, reason)) {
    const Sum sum{self, beta, alpha};
    const std::array sizes{mat1.size(0), mat2.size(1)};
    reason = sum.fallback_reason(sizes, mat2.scalar_type());
    if (reason == nullptr) {
      auto result = product(*operand, mat1, mat2);
      sum.add_to(result);
      return result;
    }
  }
  fall_back(reason, self, mat1, mat2);
  return call_torch_under(kCsrKey, kOp.text, self, mat1, mat2, beta, alpha).toTensor();
}

template <OpName kOp>
at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  const char* reason = "";
  if (const auto operand = mm_operand(self, mat2, reason)) {
    const std::array sizes{self.size(0), mat2.size(1)};
    resize_half(out, sizes, mat2.scalar_type());
    reason = out_fallback_reason(out, sizes, mat2.scalar_type());
    if (reason == nullptr && takes_result(out, sizes, mat2, *operand)) {
      product_into(*operand, self, mat2, out);
      return out;
    }
    if (reason == nullptr) {
      out.copy_(product(*operand, self, mat2));
      return out;
    }
  }
  fall_back(reason, self, mat2);
  call_torch_under(kCsrKey, kOp.text, self, *apart_from(mat2, out), out);
  return out;
}

template <OpName kOp>
at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                      const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const char* reason = "";
  if (const auto operand = mm_operand(mat1, mat2, reason)) {
    const Sum sum{self, beta, alpha};
    const std::array sizes{mat1.size(0), mat2.size(1)};
    reason = sum.fallback_reason(sizes, mat2.scalar_type());
    if (reason == nullptr) {
      resize_half(out, sizes, mat2.scalar_type());
    }
    reason = reason == nullptr ? out_fallback_reason(out, sizes, mat2.scalar_type()) : reason;
    if (reason == nullptr && sum.is_product() && takes_result(out, sizes, mat2, *operand)) {
      product_into(*operand, mat1, mat2, out);
      return out;
    }
    if (reason == nullptr) {
      auto result = product(*operand, mat1, mat2);
      sum.add_to(result);
      out.copy_(result);
      return out;
    }
  }
  fall_back(reason, self, mat1, mat2);
  call_torch_under(kCsrKey, kOp.text, self, mat1, *apart_from(mat2, out), beta, alpha, out);
  return out;
}

// All forms of mv and addmv call this op.
template <OpName kOp>
at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec,
                      const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const char* reason = reasons::kShape;
  const auto operand =
      vec.dim() == 1 && mat.dim() == 2 ? mm_operand(mat, vec.unsqueeze(1), reason) : std::nullopt;
  if (operand) {
    const Sum sum{self, beta, alpha};
    const std::array sizes{mat.size(0)};
    reason = sum.fallback_reason(sizes, vec.scalar_type());
    reason = reason == nullptr ? out_fallback_reason(out, sizes, vec.scalar_type()) : reason;
    if (reason == nullptr && sum.is_product() && takes_result(out, sizes, vec, *operand)) {
      product_into(*operand, mat, vec.unsqueeze(1), out);
      return out;
    }
    if (reason == nullptr) {
      auto result = product(*operand, mat, vec.unsqueeze(1)).squeeze(1);
      sum.add_to(result);
      out.copy_(result);
      return out;
    }
  }
  fall_back(reason, mat);
  call_torch_under(kCsrKey, kOp.text, self, mat, *apart_from(vec, out), beta, alpha, out);
  return out;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::mm", kCsrKey, mm),
    CPUACCEL_OVERRIDE("aten::mm.out", kCsrKey, mm_out),
    CPUACCEL_OVERRIDE("aten::addmm", kCsrKey, addmm),
    CPUACCEL_OVERRIDE("aten::addmm.out", kCsrKey, addmm_out),
    CPUACCEL_OVERRIDE("aten::addmv.out", kCsrKey, addmv_out),
};

}  // namespace

}  // namespace cpuaccel::ops
