// The packed-weight object of quantized::conv2d, conv3d, their transposed forms and conv1d (which
// torch packs as conv2d).
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

// src: quint8 (or qint8 if the torch engine that cpuaccel stands in for accepts it), N x IC x
// spatial, any strides. dst: the same dtype, N x OC x spatial, channels last.
template <int kSpatial>
class ConvParams final : public ConvPackedParamsBase<kSpatial> {
 public:
  // Returns null and sets `reason` if no provider takes the weight. Throws c10::Error on bad
  // arguments.
  static c10::intrusive_ptr<ConvParams> create(const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvParameters& parameters,
                                               std::string& reason);
  explicit ConvParams(PackedLayer layer) : layer_(std::move(layer)) {}

  at::Tensor apply(const at::Tensor& input, double output_scale,
                   int64_t output_zero_point) override;
  at::Tensor apply_relu(const at::Tensor& input, double output_scale,
                        int64_t output_zero_point) override;
  // As in torch, the result is quantized with the parameters chosen for the input, then
  // dequantized.
  at::Tensor apply_dynamic(const at::Tensor& input, bool reduce_range) override;
  // conv(input) + accum, which torch's x86 engine does not support. accum has the shape and dtype
  // of the result and is not mutated.
  at::Tensor apply_add(const at::Tensor& input, const at::Tensor& accum, double output_scale,
                       int64_t output_zero_point, bool relu);
  // conv(input), quantized with (conv_scale, conv_zero_point), then the ops of `post_ops`. Returns
  // an undefined tensor and does nothing if that cannot be one call: no provider runs it, or
  // TensorPostOps::byte_post_ops() rejects the operands.
  at::Tensor apply_with_post_ops(const at::Tensor& input, double conv_scale,
                                 int64_t conv_zero_point, bool relu, const TensorPostOps& post_ops);

  std::tuple<at::Tensor, std::optional<at::Tensor>> unpack() override { return layer_.unpack(); }
  torch::List<int64_t> stride() const override { return list(layer_->shape().stride); }
  torch::List<int64_t> padding() const override { return list(layer_->shape().padding); }
  torch::List<int64_t> output_padding() const override {
    return list(layer_->shape().output_padding);
  }
  torch::List<int64_t> dilation() const override { return list(layer_->shape().dilation); }
  int64_t groups() const override { return layer_->shape().groups; }
  bool transpose() const override { return layer_->shape().kind == LayerKind::conv_transpose; }

  std::string describe() const { return layer_->describe(); }
  // torch's own packed object for the same weights. It runs while the plugin is off, and on
  // fallbacks.
  c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>> torch_params();

 private:
  static torch::List<int64_t> list(const std::array<int64_t, 3>& values);
  const char* op_title() const;
  void check_input(const at::Tensor& input) const;
  void check_transposed_output(const std::array<int64_t, 3>& dst) const;
  at::Tensor run(Op op, const at::Tensor& input, const at::Tensor* accum, double output_scale,
                 int64_t output_zero_point, PostOp post, const TensorPostOps* post_ops = nullptr);

  const PackedLayer layer_;
  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::params, this);
  c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>> torch_params_;
};

extern template class ConvParams<2>;
extern template class ConvParams<3>;

}  // namespace cpuaccel::torch_ao
