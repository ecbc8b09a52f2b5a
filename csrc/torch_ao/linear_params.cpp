#include "torch_ao/linear_params.h"
#include "base/plugin.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "quant/source.h"
#include "torch_ao/engine.h"
#include "torch_ao/float_path.h"
#include "torch_ao/quantized_checks.h"
#include "torch_ao/quint8.h"
#include "torch_ao/torch_kernels.h"

namespace cpuaccel::torch_ao {
namespace {

constexpr auto kOp = "quantized::linear";
constexpr auto kDynamicOp = "quantized::linear_dynamic";

int64_t rows_of(const at::Tensor& input) {
  int64_t rows = 1;
  for (int64_t i = 0; i + 1 < input.dim(); ++i) {
    rows *= input.size(i);
  }
  return rows;
}

at::DimVector output_sizes(const at::Tensor& input, int64_t N) {
  at::DimVector sizes(input.sizes());
  sizes.back() = N;
  return sizes;
}

}  // namespace

c10::intrusive_ptr<LinearParams> LinearParams::create(const at::Tensor& weight,
                                                      const std::optional<at::Tensor>& bias,
                                                      std::string& reason) {
  auto layer = PackedLayer::linear(weight, bias, reason);
  return layer ? c10::make_intrusive<LinearParams>(std::move(*layer)) : nullptr;
}

void LinearParams::check_static_input(const at::Tensor& input) const {
  check_activation(kOp, "input", input);
  check_sizes(kOp, input, kReplacedEngine.least_linear_dims);
}

void LinearParams::check_float_input(const at::Tensor& input) const {
  TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == at::kFloat, kDynamicOp,
              ": expected input to be a CPU tensor of dtype ", toString(at::kFloat), ", but got ",
              toString(input.scalar_type()), " on ", input.device());
  check_sizes(kDynamicOp, input, 2);
}

void LinearParams::check_sizes(const char* op, const at::Tensor& input, int64_t least_dims) const {
  TORCH_CHECK(input.dim() >= least_dims, op,
              ": The dimension of input tensor should be larger than or equal to ", least_dims,
              ", but got ", input.dim());
  TORCH_CHECK(input.size(-1) == layer_->shape().IC, op, ": expected the last dimension of input, ",
              input.size(-1),
              ", to be the number of columns of weight: the number of rows in the packB should be "
              "equal to K: ",
              input.size(-1), ", but it is ", layer_->shape().IC);
}

at::Tensor LinearParams::run_static(Op op, const at::Tensor& input, double output_scale,
                                    int64_t output_zero_point, PostOp post, double negative_slope,
                                    const TensorPostOps* post_ops) {
  check_static_input(input);
  const auto dtype = input.scalar_type();
  check_output_quantizer(kOp, output_scale, output_zero_point, "output_", dtype);
  const auto sizes = output_sizes(input, layer_->shape().OC);
  const auto byte_post_ops = post_ops != nullptr
                                 ? post_ops->byte_post_ops(sizes, at::MemoryFormat::Contiguous)
                                 : std::nullopt;
  if (post_ops != nullptr && !byte_post_ops) {
    return {};
  }
  const at::Tensor src = input.contiguous();
  at::Tensor dst = empty_8bit(sizes, dtype,
                              post_ops != nullptr ? PerTensor{post_ops->scale, post_ops->zero_point}
                                                  : PerTensor{output_scale, output_zero_point},
                              at::MemoryFormat::Contiguous);
  QuantCall call;
  call.src = bytes(src);
  call.s8 = dtype == at::kQInt8;
  const auto src_quantizer = per_tensor(input);
  call.src_scale = static_cast<float>(src_quantizer.scale);
  call.src_zero_point = static_cast<int32_t>(src_quantizer.zero_point);
  call.dst = mutable_bytes(dst);
  call.dst_scale = static_cast<float>(output_scale);
  call.dst_zero_point = static_cast<int32_t>(output_zero_point);
  call.post = post;
  call.negative_slope = static_cast<float>(negative_slope);
  call.byte_post_ops = byte_post_ops ? &*byte_post_ops : nullptr;
  if (layer_->run_slices(kOp, op, call, rows_of(input))) {
    return dst;
  }
  if (post_ops != nullptr) {
    return {};
  }
  const bool fused = post != PostOp::none && post != PostOp::relu;
  if (fused) {
    at::Tensor real = at::empty(sizes, at::kFloat);
    call.dst = real.data_ptr<float>();
    call.f32_dst = true;
    call.post = PostOp::none;
    if (layer_->run_slices(kOp, op, call, rows_of(input))) {
      count_fallback(op_name(op), kPostInFloat);
      apply_post(real, {}, post, negative_slope);
      return at::quantize_per_tensor(real, output_scale, output_zero_point, dtype);
    }
  }
  const char* why = layer_->needs_float();
  count_fallback(op_name(op), why != nullptr ? why : "no provider supports this call");
  if (fused || !layer_.torch_takes()) {
    const auto [weight, bias] = layer_.unpack();
    return run_in_float(layer_->shape(), weight, bias, input, {}, post, negative_slope,
                        output_scale, output_zero_point);
  }
  return post == PostOp::relu ? torch_params()->apply_relu(input, output_scale, output_zero_point)
                              : torch_params()->apply(input, output_scale, output_zero_point);
}

at::Tensor& LinearParams::run_static_out(const at::Tensor& input, double output_scale,
                                         int64_t output_zero_point, PostOp post,
                                         at::Tensor& output) {
  check_activation(kOp, "output", output);
  TORCH_CHECK(output.q_scale() == output_scale && output.q_zero_point() == output_zero_point, kOp,
              ": expected output to have scale ", output_scale, " and zero point ",
              output_zero_point, ", but got ", output.q_scale(), " and ", output.q_zero_point());
  const at::Tensor result = run_static(Op::linear, input, output_scale, output_zero_point, post);
  output.resize_(result.sizes());
  output.copy_(result);
  return output;
}

at::Tensor LinearParams::run_float(const at::Tensor& input, double scale, int64_t zero_point,
                                   PostOp post) {
  const at::Tensor src = input.contiguous();
  at::Tensor dst = at::empty(output_sizes(input, layer_->shape().OC), input.options());
  QuantCall call;
  call.src_f32 = src.const_data_ptr<float>();
  call.src_scale = static_cast<float>(scale);
  call.src_zero_point = static_cast<int32_t>(zero_point);
  call.dst = dst.data_ptr<float>();
  call.f32_dst = true;
  call.post = post;
  if (layer_->run_slices(kOp, Op::linear_dynamic, call, rows_of(input))) {
    return dst;
  }
  const char* why = layer_->needs_float();
  count_fallback(op_name(Op::linear_dynamic),
                 why != nullptr ? why : "no provider supports this call");
  const auto [weight, bias] = layer_.unpack();
  const at::Tensor quantized = at::quantize_per_tensor(src, scale, zero_point, at::kQUInt8);
  return real_in_float(layer_->shape(), weight, bias, quantized, {}, post, 0.0);
}

at::Tensor LinearParams::run_dynamic(const at::Tensor& input, bool reduce_range, PostOp post) {
  check_float_input(input);
  const at::Tensor src = input.contiguous();
  const auto q = quant::dynamic_quantizer(src.const_data_ptr<float>(), src.numel(), reduce_range);
  return run_float(src, q.scale, q.zero_point, post);
}

at::Tensor LinearParams::apply(at::Tensor input, double output_scale, int64_t output_zero_point) {
  return plugin_on() ? run_static(Op::linear, input, output_scale, output_zero_point, PostOp::none)
                     : torch_params()->apply(std::move(input), output_scale, output_zero_point);
}

at::Tensor LinearParams::apply_relu(at::Tensor input, double output_scale,
                                    int64_t output_zero_point) {
  return plugin_on()
             ? run_static(Op::linear, input, output_scale, output_zero_point, PostOp::relu)
             : torch_params()->apply_relu(std::move(input), output_scale, output_zero_point);
}

at::Tensor& LinearParams::apply_out(const at::Tensor& input, double output_scale,
                                    int64_t output_zero_point, at::Tensor& output) {
  return plugin_on() ? run_static_out(input, output_scale, output_zero_point, PostOp::none, output)
                     : torch_params()->apply_out(input, output_scale, output_zero_point, output);
}

at::Tensor& LinearParams::apply_relu_out(const at::Tensor& input, double output_scale,
                                         int64_t output_zero_point, at::Tensor& output) {
  return plugin_on()
             ? run_static_out(input, output_scale, output_zero_point, PostOp::relu, output)
             : torch_params()->apply_relu_out(input, output_scale, output_zero_point, output);
}

at::Tensor LinearParams::apply_with_input_q_dq_qweight_dq_output_fp32(at::Tensor input,
                                                                      double input_scale,
                                                                      int64_t input_zero_point) {
  if (!plugin_on()) {
    return torch_params()->apply_with_input_q_dq_qweight_dq_output_fp32(
        std::move(input), input_scale, input_zero_point);
  }
  check_float_input(input);
  return run_float(input, input_scale, input_zero_point, PostOp::none);
}

at::Tensor LinearParams::apply_with_input_q_dq_qweight_dq_relu_output_fp32(
    at::Tensor input, double input_scale, int64_t input_zero_point) {
  if (!plugin_on()) {
    return torch_params()->apply_with_input_q_dq_qweight_dq_relu_output_fp32(
        std::move(input), input_scale, input_zero_point);
  }
  check_float_input(input);
  return run_float(input, input_scale, input_zero_point, PostOp::relu);
}

at::Tensor LinearParams::apply_dynamic(at::Tensor input, bool reduce_range) {
  return plugin_on() ? run_dynamic(input, reduce_range, PostOp::none)
                     : torch_params()->apply_dynamic(std::move(input), reduce_range);
}

at::Tensor LinearParams::apply_dynamic_relu(at::Tensor input, bool reduce_range) {
  return plugin_on() ? run_dynamic(input, reduce_range, PostOp::relu)
                     : torch_params()->apply_dynamic_relu(std::move(input), reduce_range);
}

at::Tensor LinearParams::apply_leaky_relu(const at::Tensor& input, double output_scale,
                                          int64_t output_zero_point, double negative_slope) {
  return run_static(Op::linear_leaky_relu, input, output_scale, output_zero_point,
                    PostOp::leaky_relu, negative_slope);
}

at::Tensor LinearParams::apply_tanh(const at::Tensor& input, double output_scale,
                                    int64_t output_zero_point) {
  return run_static(Op::linear_tanh, input, output_scale, output_zero_point, PostOp::tanh);
}

at::Tensor LinearParams::apply_with_post_ops(const at::Tensor& input, double linear_scale,
                                             int64_t linear_zero_point, bool relu,
                                             const TensorPostOps& post_ops) {
  return run_static(Op::linear, input, linear_scale, linear_zero_point,
                    relu ? PostOp::relu : PostOp::none, 0.0, &post_ops);
}

c10::intrusive_ptr<LinearPackedParamsBase> LinearParams::torch_params() {
  const std::scoped_lock lock(mutex_);
  if (!torch_params_) {
    const auto [weight, bias] = layer_.unpack();
    torch_params_ = torch_linear_prepack(weight, bias);
  }
  return torch_params_;
}

}  // namespace cpuaccel::torch_ao
