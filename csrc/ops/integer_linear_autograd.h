// Gradients of linear layers with integer weights: int8_linear, intx_linear, packed_intx_linear.
//
// The integers, their scales and zero points have no gradient. That of the input is grad * weight,
// where weight is dequantized.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <optional>

namespace cpuaccel::ops {

// What a weight is dequantized from, such as integers, scales and zero points.
using WeightParts = torch::autograd::variable_list;

// kDequantized of integers, scales and zero points, where the last may be undefined.
template <auto kOfThree>
at::Tensor dequantized_by(const WeightParts& parts, at::ScalarType type) {
  return kOfThree(parts[0], parts[1], parts[2].defined() ? std::optional(parts[2]) : std::nullopt,
                  type);
}

// `kDequantized`: a function of WeightParts and of a type, which returns the weight in that type.
template <auto kDequantized>
class IntegerLinearFunction
    : public torch::autograd::Function<IntegerLinearFunction<kDequantized>> {
 public:
  // input and bias are arguments of their own so that autograd sees them.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& /*input*/,
                            const std::optional<at::Tensor>& bias, const WeightParts* weight,
                            const std::function<at::Tensor()>* result) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward(*weight);
    if (bias && bias->defined()) {
      context->saved_data["bias_type"] = static_cast<int64_t>(bias->scalar_type());
    }
    return (*result)();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor& grad = grads[0];
    torch::autograd::variable_list results(4);
    if (!grad.defined()) {
      return results;
    }
    if (context->needs_input_grad(0)) {
      const auto type = grad.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      const at::Tensor weight = kDequantized(context->get_saved_variables(), type);
      results[0] = at::matmul(grad.to(type), weight).to(grad.scalar_type());
    }
    // needs_input_grad counts tensor arguments only: input, bias.
    if (context->saved_data.count("bias_type") != 0 && context->needs_input_grad(1)) {
      const auto type = static_cast<at::ScalarType>(context->saved_data["bias_type"].toInt());
      results[1] = grad.reshape({-1, grad.size(-1)}).sum(0).to(type);
    }
    return results;
  }
};

// What the Autograd key of such an op does: dispatch() below that key, with gradients of input and
// bias where they are asked for.
template <auto kDequantized, typename Dispatch>
at::Tensor integer_linear_autograd(const at::Tensor& input, const std::optional<at::Tensor>& bias,
                                   const WeightParts& parts, const Dispatch& dispatch) {
  const bool bias_learns = bias && bias->defined() && bias->requires_grad();
  if (c10::GradMode::is_enabled() && (input.requires_grad() || bias_learns)) {
    const std::function<at::Tensor()> result = dispatch;
    return IntegerLinearFunction<kDequantized>::apply(input, bias, &parts, &result);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return dispatch();
}

}  // namespace cpuaccel::ops
