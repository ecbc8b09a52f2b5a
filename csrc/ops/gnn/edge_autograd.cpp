// AutogradCPU kernels of the ops whose derivatives are in Python (cpuaccel/_ops/derivatives.py).
// Calls that need no graph go straight to the kernels, which saves 8 us of Python a call. edge_sum,
// with which the layers of most graph networks train, has its derivative here too, which saves 90
// us.
//
// All other calls go to the kernel that Python registered for the alias key Autograd. A kernel
// under AutogradCPU hides that kernel from calls of this key; AutogradOther still has it.

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ops/gnn/plain.h"
#include "ops/registered_op.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

template <typename Asks>
bool any_tensor(c10::ArrayRef<c10::IValue> arguments, const Asks& asks) {
  return std::ranges::any_of(arguments, [&](const c10::IValue& each) {
    return each.isTensor()
               ? asks(each.toTensor())
               : each.isTensorList() && std::ranges::any_of(each.toTensorVector(), asks);
  });
}

bool learns(const at::Tensor& tensor) {
  return tensor.defined() && c10::GradMode::is_enabled() && tensor.requires_grad();
}

bool needs_no_graph(c10::ArrayRef<c10::IValue> arguments) {
  return !in_a_transform() && !any_tensor(arguments, [](const at::Tensor& tensor) {
    return learns(tensor) || has_tangent(tensor);
  });
}

// Calls the kernel below autograd, or Python's. `keys` may include keys above autograd, where
// Python's dispatcher calls a kernel by its key.
void go_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto rest = keys & c10::after_autograd_keyset;
  if (needs_no_graph(torch::jit::last(*stack, op.schema().arguments().size()))) {
    const at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(rest, stack);
  } else {
    op.redispatchBoxed(rest.add(c10::DispatchKey::AutogradOther), stack);
  }
}

// The derivative with respect to x: weight is a constant.
class EdgeSum : public torch::autograd::Function<EdgeSum> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& edges,
                            const OptionalTensor& weight, int64_t rows, bool transposed,
                            bool mean) {
    context->save_for_backward({edges, weight.value_or(at::Tensor())});
    context->saved_data["rows"] = x.size(0);
    context->saved_data["transposed"] = transposed;
    context->saved_data["mean"] = mean;
    const at::AutoDispatchBelowAutograd below;
    return call(x, edges, weight, rows, transposed, mean);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    variable_list results(6);
    const at::Tensor& grad = grads[0];
    if (!grad.defined()) {
      return results;
    }
    const auto saved = context->get_saved_variables();
    const auto weight = saved[1].defined() ? OptionalTensor(saved[1]) : std::nullopt;
    results[0] =
        call(grad, saved[0], weight, context->saved_data["rows"].toInt(),
             !context->saved_data["transposed"].toBool(), context->saved_data["mean"].toBool());
    return results;
  }

 private:
  static at::Tensor call(const at::Tensor& x, const at::Tensor& edges, const OptionalTensor& weight,
                         int64_t rows, bool transposed, bool mean) {
    static const auto op =
        registered_op<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                 c10::SymInt, bool, bool)>("cpuaccel::edge_sum");
    return op.call(x, edges, weight, rows, transposed, mean);
  }
};

void autograd_edge_sum(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, 6);
  const at::Tensor &x = arguments[0].toTensor(), &edges = arguments[1].toTensor();
  const auto weight = arguments[2].toOptional<at::Tensor>();
  const at::Tensor constant = weight.value_or(at::Tensor());
  const bool by_kernel = learns(x) && !learns(constant) && arguments[3].isInt() &&
                         plain({&x, &edges, &constant}) && !has_tangent(x) &&
                         !has_tangent(constant);
  if (!by_kernel) {
    return go_on(op, keys, stack);
  }
  at::Tensor result = EdgeSum::apply(x, edges, weight, arguments[3].toInt(), arguments[4].toBool(),
                                     arguments[5].toBool());
  torch::jit::drop(*stack, 6);
  torch::jit::push(*stack, std::move(result));
}

constexpr std::array kDifferentiatedByPython{
    "edge_dot",
    "edge_dot_heads",
    "edge_extreme",
    "edge_extreme_backward",
    "edge_softmax",
    "edge_softmax_backward",
    "edge_stats",
    "edge_stats_backward",
    "edge_sum_heads",
    "edge_sum_heads_backward",
    "edge_values",
    "gat_alpha",
    "gat_alpha_backward",
    "gat_sum",
    "gat_sum_backward",
    "gatv2_scores",
    "gatv2_scores_backward",
    "gatv2_sum",
    "gatv2_sum_backward",
    "gcn_sum",
    "index_sum",
};

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("edge_sum", torch::CppFunction::makeFromBoxedFunction<&autograd_edge_sum>());
  for (const char* name : kDifferentiatedByPython) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&go_on>());
  }
}

}  // namespace cpuaccel::ops
