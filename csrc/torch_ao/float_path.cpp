#include "torch_ao/float_path.h"

#include <ATen/Functions.h>

#include "ops/activation.h"

namespace cpuaccel::torch_ao {
namespace {

at::IntArrayRef front(const std::array<int64_t, 3>& values, int count) {
  return {values.data(), static_cast<size_t>(count)};
}

}  // namespace

void apply_post(at::Tensor& real, const at::Tensor& accum, PostOp post, double negative_slope) {
  if (accum.defined()) {
    real.add_(accum.dequantize());
  }
  switch (post) {
    case PostOp::sum_relu:
      real.relu_();
      break;
    case PostOp::leaky_relu:
      at::leaky_relu_(real, negative_slope);
      break;
    case PostOp::tanh:
      real.tanh_();
      break;
    case PostOp::sum:
      break;
    default:
      ops::activate_(*dnnl_layer::activation_of(post), real);
  }
}

at::Tensor real_in_float(const LayerShape& shape, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const at::Tensor& input,
                         const at::Tensor& accum, PostOp post, double negative_slope) {
  at::Tensor real;
  if (shape.kind == LayerKind::linear) {
    real = at::linear(input.dequantize(), weight.dequantize(), bias);
  } else {
    real = at::convolution(input.dequantize(), weight.dequantize(), bias,
                           front(shape.stride, shape.spatial), front(shape.padding, shape.spatial),
                           front(shape.dilation, shape.spatial),
                           shape.kind == LayerKind::conv_transpose,
                           front(shape.output_padding, shape.spatial), shape.groups);
  }
  apply_post(real, accum, post, negative_slope);
  return real;
}

at::Tensor run_in_float(const LayerShape& shape, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const at::Tensor& input,
                        const at::Tensor& accum, PostOp post, double negative_slope,
                        double output_scale, int64_t output_zero_point) {
  at::Tensor real = real_in_float(shape, weight, bias, input, accum, post, negative_slope);
  if (shape.spatial > 0) {
    real = real.contiguous(shape.spatial == 2 ? at::MemoryFormat::ChannelsLast
                                              : at::MemoryFormat::ChannelsLast3d);
  }
  return at::quantize_per_tensor(real, output_scale, output_zero_point, input.scalar_type());
}

}  // namespace cpuaccel::torch_ao
