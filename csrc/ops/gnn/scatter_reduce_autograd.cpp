// Gradients of scatter_reduce and index_reduce with amax and amin: ties share the gradient of the
// result, as in torch's formula, but without its dozen tensors of src's size.
//
//   share = grad / (number of values in src and self that equal the result)
//   grad_src = (src == result[index]) * share[index],  grad_self = (self == result) * share
//
// self counts even if it is not included, and NaN equals nothing: both as in torch.

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/scatter/reduce.h"
#include "ops/gnn/plain.h"
#include "ops/gnn/reduction.h"
#include "ops/gnn/rows.h"
#include "ops/gnn/scatter_call.h"
#include "ops/gnn/ties.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ReduceCall {
  Op op;
  const at::Tensor& self;
  int64_t dim;
  const at::Tensor& index;
  const at::Tensor& src;
  std::string_view reduce;
  bool include_self;

  bool learns() const {
    return c10::GradMode::is_enabled() && (self.requires_grad() || src.requires_grad());
  }
  bool in_no_graph() const { return !learns() && !has_tangent(self) && !has_tangent(src); }

  // Whether cpuaccel computes the gradients. All tensors then have memory.
  bool gradients_supported() const {
    const auto reduction = reduction_of(reduce);
    if (!learns() || !reduction || !reduction->takes_one() || !plain({&self, &index, &src}) ||
        self.is_inference() || src.is_inference() || index.is_inference() || has_tangent(self) ||
        has_tangent(src)) {
      return false;
    }
    const auto type = src.scalar_type();
    ScatterArguments arguments{op, self, dim, index, src, {}};
    return (type == at::kFloat || type == at::kDouble) &&
           scatter_fallback_reason(arguments) == nullptr && index.size(0) == src.size(0);
  }
};

struct Saved {
  at::Tensor self, index, src, result;
  bool include_self;
  bool wants_self, wants_src;
};

// Gradients by differentiable ops.
variable_list by_formula(const at::Tensor& grad, const Saved& saved) {
  const auto numbers = row_numbers_view(saved.index).to(at::kLong);
  const auto self_is_result = saved.self.eq(saved.result);
  const auto src_is_result = saved.src.eq(saved.result.index_select(0, numbers));
  const auto type = grad.scalar_type();
  const auto share = grad / self_is_result.to(type).index_add(0, numbers, src_is_result.to(type));
  at::Tensor of_self = self_is_result * share;
  if (!saved.include_self) {
    of_self = of_self.index_fill(0, numbers, 0);
  }
  return {of_self, src_is_result * share.index_select(0, numbers)};
}

variable_list by_kernels(Op op, const at::Tensor& grad, const Saved& saved) {
  const KernelCall kernel_call(op);
  const auto numbers = *row_numbers(saved.index);  // scatter_fallback_reason() accepted this index
  const auto result = saved.result.contiguous(), src = with_rows(saved.src);
  const auto self_is_result = saved.self.eq(result).to(grad.scalar_type()).contiguous();
  const auto ties = saved.wants_self ? self_is_result.clone() : self_is_result;

  auto count = ties_call(src, result);
  count.index = numbers.data;
  count.wide = numbers.wide;
  count.dst = ties.mutable_data_ptr();
  kernels::scatter(count);
  const auto share = (grad / ties).contiguous();

  variable_list grads(2);
  if (saved.wants_src) {
    grads[1] = at::empty_like(src, src.options(), at::MemoryFormat::Contiguous);
    kernels::scatter_amax_grad(scatter_amax_grad_call(count, share, grads[1]));
  }
  if (saved.wants_self) {
    grads[0] = self_is_result * share;
    if (!saved.include_self) {
      count.dst = grads[0].mutable_data_ptr();
      kernels::fill_named_rows(count, 0);
    }
  }
  return grads;
}

at::Tensor run_below(const ReduceCall& call) {
  return call.op == Op::scatter_reduce
             ? at::_ops::scatter_reduce_two::call(call.self, call.dim, call.index, call.src,
                                                  call.reduce, call.include_self)
             : at::_ops::index_reduce::call(call.self, call.dim, call.index, call.src, call.reduce,
                                            call.include_self);
}

void run_in_place_below(const ReduceCall& call, at::Tensor& self) {
  if (call.op == Op::scatter_reduce) {
    at::_ops::scatter_reduce__two::call(self, call.dim, call.index, call.src, call.reduce,
                                        call.include_self);
  } else {
    at::_ops::index_reduce_::call(self, call.dim, call.index, call.src, call.reduce,
                                  call.include_self);
  }
}

class LargestOfRows : public torch::autograd::Function<LargestOfRows> {
 public:
  static at::Tensor forward(AutogradContext* context, at::Tensor self, const at::Tensor& src,
                            const at::Tensor& index, const ReduceCall* call, bool in_place) {
    context->saved_data["scatters"] = call->op == Op::scatter_reduce;
    context->saved_data["include_self"] = call->include_self;
    at::Tensor before = self, result;
    if (in_place) {
      before = self.clone();
      const at::AutoDispatchBelowADInplaceOrView below;
      run_in_place_below(*call, self);
      context->mark_dirty({self});  // which bumps the version
      result = self;
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      result = run_below(*call);
    }
    context->save_for_backward({before, index, src, result});
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor& grad = grads[0];
    variable_list results(5);
    if (!grad.defined()) {
      return results;
    }
    const auto tensors = context->get_saved_variables();
    // needs_input_grad counts tensor arguments only: self, src, index.
    const Saved saved{tensors[0],
                      tensors[1],
                      tensors[2],
                      tensors[3],
                      context->saved_data["include_self"].toBool(),
                      context->needs_input_grad(0),
                      context->needs_input_grad(1)};
    const bool by_kernel = !c10::GradMode::is_enabled() &&
                           grad.scalar_type() == saved.src.scalar_type() &&
                           plain({&grad, &saved.self, &saved.index, &saved.src, &saved.result});
    const Op op = context->saved_data["scatters"].toBool() ? Op::scatter_reduce_backward
                                                           : Op::index_reduce_backward;
    auto found = by_kernel ? by_kernels(op, grad, saved) : by_formula(grad, saved);
    if (!by_kernel) {
      report_fallback(op_name(op), "double backward, torch.func or unsupported gradient tensor");
    }
    for (size_t i = 0; i < 2; ++i) {
      if (context->needs_input_grad(i)) {
        results[i] = std::move(found[i]);
      }
    }
    return results;
  }
};

// Passes the keys of torch's call: its kernel dispatches to those below autograd.
at::Tensor by_torch(const char* name, c10::DispatchKeySet keys, const ReduceCall& call) {
  torch::jit::Stack stack;
  torch::jit::push(stack, call.self, call.dim, call.index, call.src, std::string(call.reduce),
                   call.include_self);
  torch_kernel(name, c10::DispatchKey::AutogradCPU).call(stack, keys);
  return std::move(stack.back()).toTensor();
}

template <OpName kName, Op kOp>
at::Tensor reduce(c10::DispatchKeySet keys, const at::Tensor& self, int64_t dim,
                  const at::Tensor& index, const at::Tensor& src, std::string_view reduce,
                  bool include_self) {
  const ReduceCall call{kOp, self, dim, index, src, reduce, include_self};
  if (call.in_no_graph()) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto rest = keys & c10::after_autograd_keyset;
    return kOp == Op::scatter_reduce ? at::_ops::scatter_reduce_two::redispatch(
                                           rest, self, dim, index, src, reduce, include_self)
                                     : at::_ops::index_reduce::redispatch(
                                           rest, self, dim, index, src, reduce, include_self);
  }
  return call.gradients_supported() ? LargestOfRows::apply(self, src, index, &call, false)
                                    : by_torch(kName.text, keys, call);
}

template <OpName kName, Op kOp>
at::Tensor& reduce_in_place(c10::DispatchKeySet keys, at::Tensor& self, int64_t dim,
                            const at::Tensor& index, const at::Tensor& src, std::string_view reduce,
                            bool include_self) {
  const ReduceCall call{kOp, self, dim, index, src, reduce, include_self};
  if (call.in_no_graph()) {
    const at::AutoDispatchBelowAutograd below;
    const auto rest = keys & c10::after_autograd_keyset;
    return kOp == Op::scatter_reduce ? at::_ops::scatter_reduce__two::redispatch(
                                           rest, self, dim, index, src, reduce, include_self)
                                     : at::_ops::index_reduce_::redispatch(
                                           rest, self, dim, index, src, reduce, include_self);
  }
  // Views and leaves that require gradients run on torch's kernel, which has checks for them.
  const bool simple = !self.is_view() && !(self.is_leaf() && self.requires_grad());
  if (simple && call.gradients_supported() && apart(self, src)) {
    LargestOfRows::apply(self, src, index, &call, true);
  } else {
    by_torch(kName.text, keys, call);
  }
  return self;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::scatter_reduce.two", c10::DispatchKey::AutogradCPU, reduce,
                      Op::scatter_reduce),
    CPUACCEL_OVERRIDE("aten::scatter_reduce_.two", c10::DispatchKey::AutogradCPU, reduce_in_place,
                      Op::scatter_reduce),
    CPUACCEL_OVERRIDE("aten::index_reduce", c10::DispatchKey::AutogradCPU, reduce,
                      Op::index_reduce),
    CPUACCEL_OVERRIDE("aten::index_reduce_", c10::DispatchKey::AutogradCPU, reduce_in_place,
                      Op::index_reduce),
};

}  // namespace

}  // namespace cpuaccel::ops
