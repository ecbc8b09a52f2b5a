#include "torch_ao/packed_layer.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/isa.h"
#include "quant/external_provider.h"
#include "quant/providers.h"
#include "torch_ao/engine.h"

namespace cpuaccel::torch_ao {
namespace {

using quant::LayerWeight;

void check_weight(const at::Tensor& weight, const char* op, int64_t dim) {
  TORCH_CHECK(weight.defined() && weight.device().is_cpu(), op,
              ": expected weight to be a CPU tensor, but got device ",
              weight.defined() ? weight.device().str() : "(undefined)");
  TORCH_CHECK(weight.scalar_type() == at::kQInt8, op,
              ": expected weight to have dtype QInt8, but got ", toString(weight.scalar_type()));
  TORCH_CHECK(weight.dim() == dim, op,
              dim == 2 ? ": The weight tensor should be " : ": Weights are expected to have ", dim,
              dim == 2 ? "-dimensional" : " dimensions", ", but got shape ", weight.sizes());
}

// The engine's shape; its errors about arguments are torch's here.
template <typename Shape>
LayerShape checked(const Shape& shape) {
  try {
    return shape();
  } catch (const std::runtime_error& error) {
    TORCH_CHECK(false, error.what());
  }
}

// Whether torch's engine runs layers of this shape correctly.
bool engine_takes(const LayerShape& shape, bool symmetric) {
  const auto* fbgemm = quant::external_provider(Provider::fbgemm);
  if (fbgemm != nullptr && fbgemm->gets_wrong(shape)) {
    return false;
  }
  const auto& engine = kReplacedEngine;
  return (engine.weight_zero_points || symmetric) &&
         (engine.transposed_convolutions || shape.kind != LayerKind::conv_transpose);
}

quant::Int8Weights plain_values(const at::Tensor& weight) {
  const auto values =
      std::make_shared<const at::Tensor>(weight.contiguous().int_repr().contiguous());
  return {values->const_data_ptr<int8_t>(), values->numel(), values};
}

}  // namespace

void PackedLayer::read_quantizer(LayerWeight& layer, const at::Tensor& weight, const char* op,
                                 int64_t channel_axis) {
  const int64_t OC = layer.shape.OC;
  const auto qscheme = weight.qscheme();
  layer.per_channel = qscheme == at::kPerChannelAffine;
  TORCH_CHECK(
      layer.per_channel || qscheme == at::kPerTensorAffine, op,
      ": expected weight to be quantized per tensor or per channel affine, but got qscheme ",
      toString(qscheme));
  layer.scales.resize(static_cast<size_t>(OC));
  layer.zero_points.resize(static_cast<size_t>(OC));
  if (!layer.per_channel) {
    tensor_scale_ = weight.q_scale();
    tensor_zero_point_ = weight.q_zero_point();
    std::ranges::fill(layer.scales, static_cast<float>(tensor_scale_));
    std::ranges::fill(layer.zero_points, static_cast<int32_t>(tensor_zero_point_));
    return;
  }
  TORCH_CHECK(weight.q_per_channel_axis() == channel_axis, op,
              ": expected weight to be quantized along its output channels, axis ", channel_axis,
              ", but got axis ", weight.q_per_channel_axis());
  channel_axis_ = channel_axis;
  channel_scales_ = weight.q_per_channel_scales().clone();
  channel_zero_points_ = weight.q_per_channel_zero_points().clone();
  const auto scales = channel_scales_.to(at::kFloat).contiguous();
  const auto zero_points = channel_zero_points_.to(at::kInt).contiguous();
  std::copy_n(scales.const_data_ptr<float>(), OC, layer.scales.begin());
  std::copy_n(zero_points.const_data_ptr<int32_t>(), OC, layer.zero_points.begin());
}

void PackedLayer::read_bias(LayerWeight& layer, const std::optional<at::Tensor>& bias,
                            const char* op) {
  if (!bias.has_value() || !bias->defined()) {
    return;
  }
  const int64_t OC = layer.shape.OC;
  TORCH_CHECK(bias->dim() == 1, op, ": bias should be a vector (1D Tensor), but got shape ",
              bias->sizes());
  TORCH_CHECK(bias->size(0) == OC, op, ": bias should have ",
              layer.shape.kind == LayerKind::linear ? "N" : "K", " elements: ", OC, ", but got ",
              bias->size(0));
  TORCH_CHECK(bias->scalar_type() == at::kFloat && !bias->is_quantized(), op,
              ": expected bias to have dtype float, but got ", toString(bias->scalar_type()));
  bias_ = bias->detach().contiguous();
  layer.bias = {std::make_shared<const at::Tensor>(*bias_), [](const void* tensor) {
                  return static_cast<const at::Tensor*>(tensor)->const_data_ptr<float>();
                }};
}

std::optional<PackedLayer> PackedLayer::create(LayerShape shape, const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               const char* op, at::MemoryFormat unpacked_format,
                                               std::string& reason) {
  PackedLayer packed;
  packed.unpacked_format_ = unpacked_format;
  LayerWeight layer;
  layer.shape = std::move(shape);
  layer.s8_sources = kReplacedEngine.qint8;
  packed.read_quantizer(layer, weight, op, layer.shape.kind == LayerKind::conv_transpose ? 1 : 0);
  packed.read_bias(layer, bias, op);
  layer.values = plain_values(weight);
  // Without VNNI the sums of torch's kernel saturate.
  const bool is_right = has_vnni() || quant::forced_provider();
  const bool has_fallback = is_right && engine_takes(layer.shape, layer.symmetric());
  packed.layer_ = quant::Layer::create(std::move(layer), reason, {.has_fallback = has_fallback});
  return packed.layer_ ? std::optional(std::move(packed)) : std::nullopt;
}

std::optional<PackedLayer> PackedLayer::linear(const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               std::string& reason) {
  constexpr auto op = "quantized::linear_prepack";
  check_weight(weight, op, 2);
  auto shape = checked([&] { return quant::linear_shape(weight.sizes().vec()); });
  return create(std::move(shape), weight, bias, op, at::MemoryFormat::Contiguous, reason);
}

std::optional<PackedLayer> PackedLayer::convolution(const at::Tensor& weight,
                                                    const std::optional<at::Tensor>& bias,
                                                    const ConvParameters& parameters, int spatial,
                                                    std::string& reason) {
  const char* op =
      parameters.transposed ? "quantized::conv_transpose_prepack" : "quantized::conv_prepack";
  check_weight(weight, op, spatial + 2);
  auto shape =
      checked([&] { return quant::conv_shape(weight.sizes().vec(), parameters, spatial); });
  const auto channels_last =
      spatial == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  return create(
      std::move(shape), weight, bias, op,
      kReplacedEngine.channels_last_weights ? channels_last : weight.suggest_memory_format(),
      reason);
}

std::tuple<at::Tensor, std::optional<at::Tensor>> PackedLayer::unpack() const {
  const auto values = layer_->unpack();
  // from_blob() takes no const pointer; this one is only read.
  const at::Tensor plain =
      at::from_blob(const_cast<int8_t*>(values.data), layer_->shape().weight_sizes(), at::kChar)
          .contiguous(unpacked_format_);
  const at::Tensor weight =
      channel_scales_.defined()
          ? at::_make_per_channel_quantized_tensor(plain, channel_scales_, channel_zero_points_,
                                                   channel_axis_)
          : at::_make_per_tensor_quantized_tensor(plain, tensor_scale_, tensor_zero_point_);
  return {weight, bias_};
}

bool PackedLayer::torch_takes() const {
  const auto& shape = layer_->shape();
  return layer_->needs_float() == nullptr && engine_takes(shape, layer_->symmetric()) &&
         quant::libraries_are_exact(shape);
}

}  // namespace cpuaccel::torch_ao
