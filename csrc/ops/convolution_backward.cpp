// aten::convolution_backward of 16-bit tensors, computed in f32 where torch has no arithmetic for
// them: its plain loop takes 3 to 8 times as long. The forward pass: convolution.cpp.
#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>

#include "ops/conv_shape.h"
#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"

namespace cpuaccel::ops {
namespace {

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// `x` in `type`; undefined gradients, which were not asked for, stay so.
at::Tensor in(at::ScalarType type, const at::Tensor& x) { return x.defined() ? x.to(type) : x; }

template <OpName kName>
Gradients convolution_backward(const at::Tensor& grad_output, const at::Tensor& input,
                               const at::Tensor& weight, at::OptionalIntArrayRef bias_sizes,
                               at::IntArrayRef stride, at::IntArrayRef padding,
                               at::IntArrayRef dilation, bool transposed,
                               at::IntArrayRef output_padding, int64_t groups,
                               std::array<bool, 3> output_mask) {
  const auto type = input.scalar_type();
  const bool in_float = plain_loop_in_torch(type) && dense_of(grad_output, type) &&
                        dense_of(input, type) && dense_of(weight, type);
  const auto compute = [&](const at::Tensor& grad, const at::Tensor& src,
                           const at::Tensor& weights) {
    return at::native::convolution_backward(grad, src, weights, bias_sizes, stride, padding,
                                            dilation, transposed, output_padding, groups,
                                            output_mask);
  };
  if (!in_float) {
    return compute(grad_output, input, weight);
  }
  const auto [input_grad, weight_grad, bias_grad] =
      compute(grad_output.to(at::kFloat), input.to(at::kFloat), weight.to(at::kFloat));
  return {in(type, input_grad), in(type, weight_grad), in(type, bias_grad)};
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::convolution_backward", c10::DispatchKey::CPU, convolution_backward),
};

}  // namespace
}  // namespace cpuaccel::ops
