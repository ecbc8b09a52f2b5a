// Gradients, transforms and autocast of packed_linear.
//
// Packed weights have no gradient: unpack them to train them. torch computes the gradients of the
// input and of the bias on the weight, which is unpacked for the time of the backward. Under
// torch.func and forward-mode derivatives, torch's linear runs on the unpacked weight.

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>

#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalType = std::optional<at::ScalarType>;

at::Tensor dispatch_linear(const at::Tensor& input, const at::Tensor& packed, int64_t panel,
                           int64_t out_features, int64_t in_features, const OptionalTensor& bias,
                           OptionalType dtype) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, int64_t, int64_t, int64_t,
                               const OptionalTensor&, OptionalType);
  static const auto op = registered_op<Signature>("cpuaccel::packed_linear");
  return op.call(input, packed, panel, out_features, in_features, bias, dtype);
}

at::Tensor dispatch_unpack(const at::Tensor& packed, int64_t panel, int64_t out_features,
                           int64_t in_features) {
  using Signature = at::Tensor(const at::Tensor&, int64_t, int64_t, int64_t);
  static const auto op = registered_op<Signature>("cpuaccel::unpack_linear");
  return op.call(packed, panel, out_features, in_features);
}

at::Tensor composed_linear(const at::Tensor& input, const at::Tensor& packed, int64_t panel,
                           int64_t out_features, int64_t in_features, const OptionalTensor& bias,
                           OptionalType dtype) {
  report_fallback("packed_linear", kTransformed);
  const at::Tensor weight = dispatch_unpack(packed, panel, out_features, in_features);
  if (!dtype) {
    return at::linear(input, weight, bias);
  }
  const bool biased = bias && bias->defined();
  return at::linear(input, weight.to(*dtype),
                    biased ? OptionalTensor(bias->to(*dtype)) : std::nullopt);
}

class PackedLinear : public torch::autograd::Function<PackedLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& packed, int64_t panel, int64_t out_features,
                            int64_t in_features, const OptionalTensor& bias, OptionalType dtype) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({packed});
    context->saved_data["shape"] = std::vector<int64_t>{panel, out_features, in_features};
    if (bias && bias->defined()) {
      context->saved_data["bias_type"] = static_cast<int64_t>(bias->scalar_type());
    }
    return dispatch_linear(input, packed, panel, out_features, in_features, bias, dtype);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor& grad = grads[0];
    torch::autograd::variable_list results(7);
    if (!grad.defined()) {
      return results;
    }
    if (context->needs_input_grad(0)) {
      const auto packed = context->get_saved_variables()[0];
      const auto shape = context->saved_data["shape"].toIntVector();
      const auto weight = dispatch_unpack(packed, shape[0], shape[1], shape[2]);
      results[0] = at::matmul(grad, weight.to(grad.scalar_type()));
    }
    // needs_input_grad counts tensor arguments only: input, packed, bias.
    if (context->saved_data.count("bias_type") != 0 && context->needs_input_grad(2)) {
      const auto type = static_cast<at::ScalarType>(context->saved_data["bias_type"].toInt());
      at::Tensor sum = grad;
      while (sum.dim() > 1) {
        sum = sum.sum(0);
      }
      results[5] = sum.to(type);
    }
    return results;
  }
};

at::Tensor autograd_packed_linear(const at::Tensor& input, const at::Tensor& packed, int64_t panel,
                                  int64_t out_features, int64_t in_features,
                                  const OptionalTensor& bias, OptionalType dtype) {
  if (is_transformed({&input, pointer_to(bias)})) {
    return composed_linear(input, packed, panel, out_features, in_features, bias, dtype);
  }
  const bool bias_learns = bias && bias->defined() && bias->requires_grad();
  if (c10::GradMode::is_enabled() && (input.requires_grad() || bias_learns)) {
    return PackedLinear::apply(input, packed, panel, out_features, in_features, bias, dtype);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return dispatch_linear(input, packed, panel, out_features, in_features, bias, dtype);
}

// As torch's linear under autocast: operands are cast, and the result has autocast's type. The
// packed weight is neither cast nor rounded.
at::Tensor autocast_packed_linear(const at::Tensor& input, const at::Tensor& packed, int64_t panel,
                                  int64_t out_features, int64_t in_features,
                                  const OptionalTensor& bias, OptionalType dtype) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  const auto type = at::autocast::get_autocast_dtype(at::kCPU);
  const auto cast = at::autocast::cached_cast(type, input, at::kCPU);
  if (cast.scalar_type() == type) {
    dtype = type;
  }
  return dispatch_linear(cast, packed, panel, out_features, in_features, bias, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("packed_linear", autograd_packed_linear);
}

TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("packed_linear", composed_linear);
}

TORCH_LIBRARY_IMPL(cpuaccel, AutocastCPU, library) {
  library.impl("packed_linear", autocast_packed_linear);
}

}  // namespace cpuaccel::ops
