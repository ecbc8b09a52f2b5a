// mm, addmm and their out= of a sparse CSR or CSC matrix and a dense one: `A @ x`,
// torch.sparse.mm(A, x), and their derivatives by x, for which torch transposes A.

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>

#include <array>

#include "kernels/spmm/spmm.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/rows.h"
#include "ops/gnn/transposed.h"
#include "ops/lists.h"
#include "ops/override.h"
#include "ops/own_call.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kName = "sparse_mm";
constexpr auto kKey = c10::DispatchKey::SparseCsrCPU;

// Nothing, and `why`, where torch has to judge or compute. 16 bits are errors of torch's.
std::optional<CsrOperand> operand_of(const at::Tensor& sparse, const at::Tensor& dense,
                                     const char*& why) {
  auto operand = csr_operand(sparse, why);
  if (!operand) {
    return std::nullopt;
  }
  const auto type = dense.scalar_type();
  if (dense.layout() != at::kStrided || !dense.device().is_cpu() || dense.is_neg()) {
    why = "layout";
  } else if ((type != at::kFloat && type != at::kDouble) || operand->values.scalar_type() != type) {
    why = "type";
  } else if (dense.dim() != 2 || dense.size(0) != sparse.size(1)) {
    why = "shape";
  } else if (operand->csr.nnz == 0 || dense.numel() == 0 || sparse.size(0) == 0) {
    why = "empty";
  } else {
    return operand;
  }
  return std::nullopt;
}

void run(const CsrOperand& operand, const at::Tensor& sparse, const at::Tensor& dense,
         const at::Tensor& out) {
  CPUACCEL_OWN_CALL(sparse_mm);
  const auto src =
      dense.stride(1) == 1 && dense.stride(0) >= dense.size(1) ? dense : dense.contiguous();
  kernels::SpmmCall call;
  call.csr = operand.csr;
  call.K = src.size(1);
  call.type = graph_type(src.scalar_type());
  call.values = operand.values.const_data_ptr();
  call.src = src.const_data_ptr();
  call.src_stride = src.stride(0);
  call.dst = out.mutable_data_ptr();
  if (sparse.layout() == at::kSparseCsr) {
    check_fault(kernels::spmm(call), operand, kName);
    return;
  }
  const auto rows = transposed(operand, kName);
  const auto values = transposed_values(operand, rows, false, sparse.requires_grad());
  call.csr = rows.csr;
  call.values = values.const_data_ptr();
  check_fault(kernels::spmm(call), operand, kName);
}

at::Tensor product(const CsrOperand& operand, const at::Tensor& sparse, const at::Tensor& dense) {
  at::Tensor out = at::detail::empty_cpu({sparse.size(0), dense.size(1)}, dense.scalar_type());
  run(operand, sparse, dense, out);
  return out;
}

// What is added counts for nothing, but has to be such that torch takes it.
bool adds_nothing(const at::Tensor& self, const at::Tensor& sparse, const at::Tensor& dense,
                  const at::Scalar& beta, const at::Scalar& alpha) {
  const std::array sizes{sparse.size(0), dense.size(1)};
  return !beta.isSymbolic() && !alpha.isSymbolic() && beta.equal(0) && alpha.equal(1) &&
         self.layout() == at::kStrided && self.scalar_type() == dense.scalar_type() &&
         at::is_expandable_to(self.sizes(), sizes);
}

bool takes_result(const at::Tensor& out, const at::Tensor& sparse, const at::Tensor& dense,
                  const CsrOperand& operand) {
  return out.layout() == at::kStrided && out.dim() == 2 && out.size(0) == sparse.size(0) &&
         out.size(1) == dense.size(1) && out.is_contiguous() && !out.is_neg() &&
         out.scalar_type() == dense.scalar_type() && apart(out, dense) &&
         apart(out, operand.values) && apart(out, operand.crow) && apart(out, operand.col);
}

template <OpName kOp>
at::Tensor mm(const at::Tensor& self, const at::Tensor& mat2) {
  const char* why = "";
  if (const auto operand = operand_of(self, mat2, why)) {
    return product(*operand, self, mat2);
  }
  count_refusal(kName, why);
  return call_torch_under(kKey, kOp.text, self, mat2).toTensor();
}

template <OpName kOp>
at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  const char* why = "";
  if (const auto operand = operand_of(mat1, mat2, why)) {
    if (adds_nothing(self, mat1, mat2, beta, alpha)) {
      return product(*operand, mat1, mat2);
    }
    why = "something is added";
  }
  count_refusal(kName, why);
  return call_torch_under(kKey, kOp.text, self, mat1, mat2, beta, alpha).toTensor();
}

template <OpName kOp>
at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  const char* why = "";
  if (const auto operand = operand_of(self, mat2, why)) {
    if (takes_result(out, self, mat2, *operand)) {
      run(*operand, self, mat2, out);
      return out;
    }
    why = "result";
  }
  count_refusal(kName, why);
  call_torch_under(kKey, kOp.text, self, mat2, out);
  return out;
}

template <OpName kOp>
at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                      const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const char* why = "";
  if (const auto operand = operand_of(mat1, mat2, why)) {
    if (!adds_nothing(self, mat1, mat2, beta, alpha)) {
      why = "something is added";
    } else if (!takes_result(out, mat1, mat2, *operand)) {
      why = "result";
    } else {
      run(*operand, mat1, mat2, out);
      return out;
    }
  }
  count_refusal(kName, why);
  call_torch_under(kKey, kOp.text, self, mat1, mat2, beta, alpha, out);
  return out;
}

constexpr std::array kOverrides{
    CPUACCEL_OVERRIDE("aten::mm", kKey, mm),
    CPUACCEL_OVERRIDE("aten::mm.out", kKey, mm_out),
    CPUACCEL_OVERRIDE("aten::addmm", kKey, addmm),
    CPUACCEL_OVERRIDE("aten::addmm.out", kKey, addmm_out),
};

}  // namespace

std::span<const Override> sparse_mm_overrides() { return kOverrides; }

}  // namespace cpuaccel::ops
