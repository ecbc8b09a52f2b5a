// Gradients and transforms of cpuaccel::int8_linear.
//
// The integer weight, its scales and those of the activations have no gradient.

#include <ATen/ops/matmul.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/int8_linear.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using Optional = std::optional<at::Tensor>;

at::Tensor dispatch(const Int8Linear& call) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const Optional&, const Optional&, std::string_view, bool,
                               const Optional&, const Optional&, int64_t, int64_t);
  static const auto op = registered_op<Signature>(kInt8Linear);
  return op.call(call.input, call.weight, call.weight_scale, call.weight_zero_point, call.bias,
                 call.quantize, call.symmetric, call.scale, call.zero_point, call.low, call.high);
}

class Int8LinearFunction : public torch::autograd::Function<Int8LinearFunction> {
 public:
  // input and bias are arguments of their own so that autograd sees them.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const Optional& bias, const Int8Linear* call) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward(
        {call->weight, call->weight_scale, call->weight_zero_point.value_or(at::Tensor())});
    if (bias && bias->defined()) {
      context->saved_data["bias_type"] = static_cast<int64_t>(bias->scalar_type());
    }
    (void)input;
    return dispatch(*call);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor& grad = grads[0];
    torch::autograd::variable_list results(3);
    if (!grad.defined()) {
      return results;
    }
    if (context->needs_input_grad(0)) {
      const auto saved = context->get_saved_variables();
      const auto type = grad.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      const at::Tensor weight = dequantized_weight(
          saved[0], saved[1], saved[2].defined() ? Optional(saved[2]) : std::nullopt, type);
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

at::Tensor transformed(const Int8Linear& call) {
  check(call);
  report_fallback("int8_linear", kTransformed);
  return int8_linear_by_torch(call);
}

at::Tensor autograd_int8_linear(const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& weight_scale, const Optional& weight_zero_point,
                                const Optional& bias, std::string_view quantize, bool symmetric,
                                const Optional& scale, const Optional& zero_point, int64_t low,
                                int64_t high) {
  const Int8Linear call{input,      weight,   weight_scale, weight_zero_point,
                        bias,       quantize, symmetric,    scale,
                        zero_point, low,      high};
  if (is_transformed({&input, pointer_to(bias)})) {
    return transformed(call);
  }
  const bool bias_learns = bias && bias->defined() && bias->requires_grad();
  if (c10::GradMode::is_enabled() && (input.requires_grad() || bias_learns)) {
    return Int8LinearFunction::apply(input, bias, &call);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return dispatch(call);
}

// vmap: the rows of each example have scales of their own, so one scale for all rows is not that of
// the batch.
at::Tensor batched_int8_linear(const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& weight_scale, const Optional& weight_zero_point,
                               const Optional& bias, std::string_view quantize, bool symmetric,
                               const Optional& scale, const Optional& zero_point, int64_t low,
                               int64_t high) {
  const Int8Linear call{input,      weight,   weight_scale, weight_zero_point,
                        bias,       quantize, symmetric,    scale,
                        zero_point, low,      high};
  return transformed(call);
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("int8_linear", autograd_int8_linear);
}

TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("int8_linear", batched_int8_linear);
}

}  // namespace cpuaccel::ops
