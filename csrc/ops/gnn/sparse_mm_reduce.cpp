// aten::_sparse_mm_reduce_impl, which torch.sparse.mm(A, x, reduce) runs, and its derivatives.

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "kernels/sddmm/sddmm.h"
#include "kernels/spmm/arg_grad.h"
#include "kernels/spmm/spmm.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/reduction.h"
#include "ops/gnn/transposed.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/sparse.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using kernels::Reduce;
using Pair = std::tuple<at::Tensor, at::Tensor>;

constexpr const char* kForward = "sparse_mm_reduce";
constexpr const char* kBackward = "sparse_mm_reduce_backward";

bool dense_of(const at::Tensor& x, at::ScalarType type, int64_t rows) {
  return x.layout() == at::kStrided && x.device().is_cpu() && !x.is_neg() && x.dim() == 2 &&
         x.scalar_type() == type && x.size(0) == rows;
}

// nullopt, with `reason` set, if torch has to run the call.
std::optional<CsrOperand> reduce_operand(const at::Tensor& self, const at::Tensor& other,
                                         const char*& reason) {
  if (self.layout() != at::kSparseCsr) {
    reason = reasons::kLayout;
    return std::nullopt;
  }
  auto operand = csr_operand(self, reason);
  if (!operand) {
    return std::nullopt;
  }
  const auto type = operand->values.scalar_type();
  if (!is_graph_type(type)) {
    reason = reasons::kDtype;
  } else if (!dense_of(other, type, operand->csr.N)) {
    reason = "unsupported dense matrix";
  } else if (operand->csr.nnz == 0 || other.size(1) == 0) {
    reason = reasons::kEmpty;
  } else {
    return operand;
  }
  return std::nullopt;
}

template <OpName kName>
Pair forward(const at::Tensor& self, const at::Tensor& other, std::string_view reduce) {
  const char* reason = reasons::kReduction;
  const auto kind = reduce_of(reduce);
  const auto operand = kind ? reduce_operand(self, other, reason) : std::nullopt;
  if (!operand) {
    report_fallback(kForward, reason);
    check_compressed(self, kForward);
    torch::jit::Stack stack;
    torch::jit::push(stack, self, other, std::string(reduce));
    torch_kernel(kName.text).call(stack);
    return {stack[0].toTensor(), stack[1].toTensor()};
  }
  CPUACCEL_KERNEL_CALL(sparse_mm_reduce);
  const auto src = other.contiguous();
  const std::array sizes{operand->csr.M, src.size(1)};
  at::Tensor out = at::detail::empty_cpu(sizes, src.scalar_type());
  // As in torch, only if a backward may need it.
  const bool needs_arg = takes_one(*kind) && c10::GradMode::is_enabled() &&
                         (self.requires_grad() || other.requires_grad());
  constexpr std::array<int64_t, 1> kNone{0};
  at::Tensor arg = at::detail::empty_cpu(
      needs_arg ? at::IntArrayRef(sizes) : at::IntArrayRef(kNone), operand->col.scalar_type());
  kernels::SpmmCall call;
  call.csr = operand->csr;
  call.K = src.size(1);
  call.type = data_type(src.scalar_type());
  call.reduce = *kind;
  call.values = operand->values.const_data_ptr();
  call.src = src.const_data_ptr();
  call.src_stride = call.K;
  call.dst = out.mutable_data_ptr();
  call.arg = needs_arg ? arg.mutable_data_ptr() : nullptr;
  check_fault(kernels::spmm(call), *operand, kForward);
  return {std::move(out), std::move(arg)};
}

struct Gradients {
  at::Tensor of_self, of_other;
  at::Tensor values() const { return at::sparse_csr::get_sparse_csr_impl(of_self)->values(); }
};

void check(kernels::ArgGradFault fault, const CsrOperand& operand) {
  using kernels::ArgGradFault;
  using kernels::CsrFault;
  TORCH_CHECK(fault != ArgGradFault::arg, kBackward, ": arg_out has an entry of another row");
  check_fault(fault == ArgGradFault::crow  ? CsrFault::crow
              : fault == ArgGradFault::col ? CsrFault::col
                                           : CsrFault::none,
              operand, kBackward);
}

void by_arg(const CsrOperand& operand, const at::Tensor& grad, const at::Tensor& src,
            const at::Tensor& arg, const Gradients& to) {
  kernels::ArgGradCall call;
  call.csr = operand.csr;
  call.K = grad.size(1);
  call.type = data_type(grad.scalar_type());
  call.values = operand.values.const_data_ptr();
  call.src = src.const_data_ptr();
  call.grad = grad.const_data_ptr();
  call.arg = arg.const_data_ptr();
  call.grad_values = to.of_self.defined() ? to.values().mutable_data_ptr() : nullptr;
  call.grad_src = to.of_other.defined() ? to.of_other.mutable_data_ptr() : nullptr;
  check(kernels::spmm_arg_grad(call), operand);
}

void of_sum(const CsrOperand& operand, const at::Tensor& grad, const at::Tensor& src, bool mean,
            const Gradients& to) {
  const int64_t K = grad.size(1);
  if (to.of_self.defined()) {
    kernels::SddmmCall call;
    call.csr = operand.csr;
    call.K = K;
    call.type = data_type(grad.scalar_type());
    call.mean = mean;
    call.a = grad.const_data_ptr();
    call.b = src.const_data_ptr();
    call.a_stride = call.b_stride = K;
    call.dst = to.values().mutable_data_ptr();
    check_fault(kernels::sddmm(call), operand, kBackward);
  }
  if (to.of_other.defined()) {
    const auto columns = transposed(operand, kBackward);
    const auto values = transposed_values(operand, columns, mean, to.of_self.defined());
    kernels::SpmmCall call;
    call.csr = columns.csr;
    call.K = K;
    call.type = data_type(grad.scalar_type());
    call.values = values.const_data_ptr();
    call.wide_values = values.scalar_type() != grad.scalar_type();
    call.src = grad.const_data_ptr();
    call.src_stride = K;
    call.dst = to.of_other.mutable_data_ptr();
    check_fault(kernels::spmm(call), operand, kBackward);
  }
}

template <OpName kName>
Pair backward(const at::Tensor& self, const at::Tensor& grad_out, const at::Tensor& weight,
              std::string_view reduce, const at::Tensor& arg_out, std::array<bool, 2> mask) {
  const char* reason = reasons::kReduction;
  const auto kind = reduce_of(reduce);
  auto operand = kind ? reduce_operand(self, weight, reason) : std::nullopt;
  if (operand && (!dense_of(grad_out, weight.scalar_type(), operand->csr.M) ||
                  grad_out.size(1) != weight.size(1))) {
    reason = reasons::kGradient;
    operand.reset();
  }
  if (!operand) {
    report_fallback(kBackward, reason);
    check_compressed(self, kBackward);
    torch::jit::Stack stack;
    torch::jit::push(stack, self, grad_out, weight, std::string(reduce), arg_out,
                     c10::List<bool>({mask[0], mask[1]}));
    torch_kernel(kName.text).call(stack);
    return {stack[0].toTensor(), stack[1].toTensor()};
  }
  CPUACCEL_KERNEL_CALL(sparse_mm_reduce_backward);
  const auto grad = grad_out.contiguous(), src = weight.contiguous();
  Gradients to;
  if (mask[0]) {
    to.of_self = at::empty_like(self);
  }
  if (mask[1]) {
    to.of_other = at::detail::empty_cpu(src.sizes(), src.scalar_type());
  }
  if (takes_one(*kind)) {
    TORCH_CHECK(
        arg_out.sizes() == grad.sizes() && arg_out.scalar_type() == operand->col.scalar_type() &&
            arg_out.layout() == at::kStrided,
        kBackward, ": expected arg_out to have the size of grad_out, ", grad.sizes(),
        ", and the type of the indices, but got ", arg_out.sizes(), " of ", arg_out.scalar_type());
    by_arg(*operand, grad, src, arg_out.contiguous(), to);
  } else {
    of_sum(*operand, grad, src, *kind == Reduce::mean, to);
  }
  return {std::move(to.of_self), std::move(to.of_other)};
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_sparse_mm_reduce_impl", c10::DispatchKey::SparseCsrCPU, forward),
    CPUACCEL_OVERRIDE("aten::_sparse_mm_reduce_impl_backward", c10::DispatchKey::SparseCsrCPU,
                      backward),
};

}  // namespace

}  // namespace cpuaccel::ops
