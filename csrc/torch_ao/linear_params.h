// The packed-weight object of quantized::linear, linear_dynamic and their fused forms.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "base/fork.h"
#include "torch_ao/packed_layer.h"
#include "torch_ao/tensor_post_ops.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {

// src: quint8 (or qint8 if torch's engine accepts it) (..., K), or float for the dynamic forms.
// dst: (..., N) of the same dtype.
class LinearParams final : public LinearPackedParamsBase {
 public:
  // Returns null and sets `reason` if no provider takes the weight. Throws c10::Error on bad
  // arguments.
  static c10::intrusive_ptr<LinearParams> create(const at::Tensor& weight,
                                                 const std::optional<at::Tensor>& bias,
                                                 std::string& reason);
  explicit LinearParams(PackedLayer layer) : layer_(std::move(layer)) {}

  at::Tensor apply(at::Tensor input, double output_scale, int64_t output_zero_point) override;
  at::Tensor apply_relu(at::Tensor input, double output_scale, int64_t output_zero_point) override;
  at::Tensor& apply_out(const at::Tensor& input, double output_scale, int64_t output_zero_point,
                        at::Tensor& output) override;
  at::Tensor& apply_relu_out(const at::Tensor& input, double output_scale,
                             int64_t output_zero_point, at::Tensor& output) override;
  at::Tensor apply_with_input_q_dq_qweight_dq_output_fp32(at::Tensor input, double input_scale,
                                                          int64_t input_zero_point) override;
  at::Tensor apply_with_input_q_dq_qweight_dq_relu_output_fp32(at::Tensor input, double input_scale,
                                                               int64_t input_zero_point) override;
  at::Tensor apply_dynamic(at::Tensor input, bool reduce_range = false) override;
  at::Tensor apply_dynamic_relu(at::Tensor input, bool reduce_range = false) override;
  std::tuple<at::Tensor, std::optional<at::Tensor>> unpack() override { return layer_.unpack(); }
  std::optional<at::Tensor> bias() override { return layer_.bias(); }

  // quantized::linear_leaky_relu and linear_tanh, which torch's x86 engine does not support.
  at::Tensor apply_leaky_relu(const at::Tensor& input, double output_scale,
                              int64_t output_zero_point, double negative_slope);
  at::Tensor apply_tanh(const at::Tensor& input, double output_scale, int64_t output_zero_point);
  // As ConvParams::apply_with_post_ops.
  at::Tensor apply_with_post_ops(const at::Tensor& input, double linear_scale,
                                 int64_t linear_zero_point, bool relu,
                                 const TensorPostOps& post_ops);

  std::string describe() const { return layer_->describe(); }
  // torch's own packed object for the same weights. It runs while the plugin is off, and on
  // fallbacks.
  c10::intrusive_ptr<LinearPackedParamsBase> torch_params();

 private:
  at::Tensor run_static(Op op, const at::Tensor& input, double output_scale,
                        int64_t output_zero_point, PostOp post, double negative_slope = 0.0,
                        const TensorPostOps* post_ops = nullptr);
  at::Tensor& run_static_out(const at::Tensor& input, double output_scale,
                             int64_t output_zero_point, PostOp post, at::Tensor& output);
  at::Tensor run_float(const at::Tensor& input, double scale, int64_t zero_point, PostOp post);
  at::Tensor run_dynamic(const at::Tensor& input, bool reduce_range, PostOp post);
  void check_static_input(const at::Tensor& input) const;
  void check_float_input(const at::Tensor& input) const;
  void check_sizes(const char* op, const at::Tensor& input, int64_t least_dims) const;

  const PackedLayer layer_;
  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::params, this);
  c10::intrusive_ptr<LinearPackedParamsBase> torch_params_;
};

}  // namespace cpuaccel::torch_ao
