// Gradients of packed_convolution. torch computes those of the input and of the bias on the weight,
// which is unpacked for the time of the backward. Packed weights have no gradient. Under torch.func
// and forward-mode derivatives, torch's convolution runs on the unpacked weight.
#include <ATen/ops/convolution_backward.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <vector>

#include "ops/conv_shape.h"
#include "ops/prepack/convolution.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

at::Tensor dispatch(CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS) {
  using Signature = at::Tensor(CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS);
  static const auto op = registered_op<Signature>("cpuaccel::packed_convolution");
  return op.call(input, packed, panel, weight, bias, stride, padding, dilation, groups,
                 channels_last);
}

at::Tensor composed(CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS) {
  report_fallback("packed_convolution", kTransformed);
  return convolution_by_torch(input, packed, panel, weight, bias, stride, padding, dilation, groups,
                              channels_last);
}

// All arguments but the tensors that may require gradients. One object, because torch counts the
// elements of lists.
struct Rest {
  std::vector<at::Tensor> packed;
  int64_t panel;
  std::vector<int64_t> weight, stride, padding, dilation;
  int64_t groups;
  bool channels_last;
};

class PackedConvolution : public torch::autograd::Function<PackedConvolution> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& bias, const Rest& rest) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto saved = rest.packed;
    saved.push_back(input);
    context->save_for_backward(std::move(saved));
    auto& data = context->saved_data;
    data["panel"] = rest.panel;
    data["weight"] = rest.weight;
    data["stride"] = rest.stride;
    data["padding"] = rest.padding;
    data["dilation"] = rest.dilation;
    data["groups"] = rest.groups;
    data["channels_last"] = rest.channels_last;
    data["biased"] = has_bias(bias);
    return dispatch(input, rest.packed, rest.panel, rest.weight, bias, rest.stride, rest.padding,
                    rest.dilation, rest.groups, rest.channels_last);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor& grad = grads[0];
    if (!grad.defined()) {
      return torch::autograd::variable_list(3);
    }
    auto saved = context->get_saved_variables();
    const at::Tensor input = saved.back();
    saved.pop_back();
    auto& data = context->saved_data;
    const auto weight = data["weight"].toIntVector();
    const auto stride = data["stride"].toIntVector();
    const std::vector<int64_t> no_output_padding(stride.size(), 0);
    const at::Tensor plain =
        unpack_convolution(saved, data["panel"].toInt(), weight, data["channels_last"].toBool());
    const bool of_bias = data["biased"].toBool() && context->needs_input_grad(1);
    const auto [input_grad, weight_grad, bias_grad] = at::convolution_backward(
        grad, input, plain, std::array{weight[0]}, stride, data["padding"].toIntVector(),
        data["dilation"].toIntVector(), false, no_output_padding, data["groups"].toInt(),
        {context->needs_input_grad(0), false, of_bias});
    return {input_grad, bias_grad, at::Tensor()};
  }
};

at::Tensor autograd_packed_convolution(CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS) {
  if (is_transformed({&input, pointer_to(bias)})) {
    return composed(input, packed, panel, weight, bias, stride, padding, dilation, groups,
                    channels_last);
  }
  const bool bias_learns = has_bias(bias) && bias->requires_grad();
  if (c10::GradMode::is_enabled() && (input.requires_grad() || bias_learns)) {
    const Rest rest{packed.vec(),  panel,          weight.vec(), stride.vec(),
                    padding.vec(), dilation.vec(), groups,       channels_last};
    return PackedConvolution::apply(input, bias, rest);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return dispatch(input, packed, panel, weight, bias, stride, padding, dilation, groups,
                  channels_last);
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("packed_convolution", autograd_packed_convolution);
}

TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("packed_convolution", composed);
}

}  // namespace cpuaccel::ops
