#include "quant/weight.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "ops/engine.h"

namespace cpuaccel::quant {
namespace {

std::string joined(const std::array<int64_t, 3>& values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += i == 0 ? "" : "x";
    text += std::to_string(values[static_cast<size_t>(i)]);
  }
  return text;
}

void read_quantizer(LayerWeight& layer, const char* op, int64_t channel_axis) {
  const at::Tensor& weight = layer.tensor;
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
    layer.tensor_scale = weight.q_scale();
    layer.tensor_zero_point = weight.q_zero_point();
    std::ranges::fill(layer.scales, static_cast<float>(layer.tensor_scale));
    std::ranges::fill(layer.zero_points, static_cast<int32_t>(layer.tensor_zero_point));
    return;
  }
  TORCH_CHECK(weight.q_per_channel_axis() == channel_axis, op,
              ": expected weight to be quantized along its output channels, axis ", channel_axis,
              ", but got axis ", weight.q_per_channel_axis());
  layer.channel_scales = weight.q_per_channel_scales().clone();
  layer.channel_zero_points = weight.q_per_channel_zero_points().clone();
  const auto scales = layer.channel_scales.to(at::kFloat).contiguous();
  const auto zero_points = layer.channel_zero_points.to(at::kInt).contiguous();
  std::copy_n(scales.const_data_ptr<float>(), OC, layer.scales.begin());
  std::copy_n(zero_points.const_data_ptr<int32_t>(), OC, layer.zero_points.begin());
}

void check_weight(const at::Tensor& weight, const char* op, int64_t dim) {
  TORCH_CHECK(weight.defined() && weight.device().is_cpu(), op,
              ": expected weight to be a CPU tensor, but got device ",
              weight.defined() ? weight.device().str() : "(undefined)");
  TORCH_CHECK(weight.scalar_type() == at::kQInt8, op,
              ": expected weight to have dtype QInt8, but got ", toString(weight.scalar_type()));
  TORCH_CHECK(weight.dim() == dim, op,
              dim == 2 ? ": The weight tensor should be " : ": Weights are expected to have ", dim,
              dim == 2 ? "-dimensional" : " dimensions", ", but got shape ", weight.sizes());
  TORCH_CHECK(weight.numel() <= std::numeric_limits<int32_t>::max(), op,
              ": expected weight to have fewer than 2^31 elements, but got shape ", weight.sizes());
}

void read_bias(LayerWeight& layer, const std::optional<at::Tensor>& bias, const char* op) {
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
  layer.bias = bias->detach().contiguous();
}

void check_list(const std::vector<int64_t>& values, const char* op, const char* name, int spatial,
                int64_t least) {
  TORCH_CHECK(static_cast<int>(values.size()) == spatial, op, ": ", name, " should contain ",
              spatial, " elements for ", spatial, "D convolution, but got ", values.size());
  for (const int64_t value : values) {
    TORCH_CHECK(value >= least && value <= std::numeric_limits<int32_t>::max(), op, ": ", name,
                least > 0 ? " should be positive" : " should not be negative",
                " and below 2^31, but got ", value);
  }
}

void copy_dims(const std::vector<int64_t>& from, std::array<int64_t, 3>& to) {
  std::ranges::copy(from, to.begin());
}

}  // namespace

std::array<int64_t, 3> LayerShape::dst_dims(const std::array<int64_t, 3>& src) const {
  std::array<int64_t, 3> dst{1, 1, 1};
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    const int64_t extent = dilation[i] * (kernel[i] - 1) + 1;
    dst[i] = kind == LayerKind::conv_transpose
                 ? (src[i] - 1) * stride[i] - 2 * padding[i] + extent + output_padding[i]
             : src[i] + 2 * padding[i] < extent
                 ? 0
                 : (src[i] + 2 * padding[i] - extent) / stride[i] + 1;
  }
  return dst;
}

at::DimVector LayerShape::weight_sizes() const {
  const bool transposed = kind == LayerKind::conv_transpose;
  at::DimVector sizes{transposed ? IC : OC, (transposed ? OC : IC) / groups};
  sizes.append(kernel.begin(), kernel.begin() + spatial);
  return sizes;
}

std::string LayerShape::to_string() const {
  if (kind == LayerKind::linear) {
    return "linear " + std::to_string(IC) + "->" + std::to_string(OC);
  }
  return (kind == LayerKind::conv ? "conv" : "conv_transpose") + std::to_string(spatial) + "d " +
         std::to_string(IC) + "->" + std::to_string(OC) + " k" + joined(kernel, spatial) + " s" +
         joined(stride, spatial) + " p" + joined(padding, spatial) + " d" +
         joined(dilation, spatial) + " g" + std::to_string(groups);
}

const float* LayerWeight::bias_data() const {
  return bias ? bias->const_data_ptr<float>() : nullptr;
}

bool LayerWeight::symmetric() const {
  return std::ranges::all_of(zero_points, [](int32_t zero_point) { return zero_point == 0; });
}

int64_t LayerWeight::int8_bytes() const {
  return shape.IC / shape.groups * shape.OC * shape.taps();
}

at::Tensor LayerWeight::requantized(const at::Tensor& int8_values) const {
  if (per_channel) {
    return at::_make_per_channel_quantized_tensor(int8_values, channel_scales, channel_zero_points,
                                                  shape.kind == LayerKind::conv_transpose ? 1 : 0);
  }
  return at::_make_per_tensor_quantized_tensor(int8_values, tensor_scale, tensor_zero_point);
}

bool sums_fit_int32(const LayerWeight& layer, const at::Tensor& int8_values) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto& shape = layer.shape;
  const int64_t count = shape.IC / shape.groups * shape.taps();
  if (count <= kMost / (255 * 255)) {
    return true;
  }
  if (shape.kind == LayerKind::conv_transpose) {
    return false;  // its channels are not rows, so only the bound above applies
  }
  const auto* data = int8_values.const_data_ptr<int8_t>();
  for (int64_t oc = 0; oc < shape.OC; ++oc) {
    int64_t sum = 0;
    for (int64_t i = oc * count; i < (oc + 1) * count; ++i) {
      sum += std::abs(int64_t{data[i]} - layer.zero_points[static_cast<size_t>(oc)]);
    }
    if (255 * sum > kMost) {
      return false;
    }
  }
  return true;
}

LayerWeight linear_weight(const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  constexpr auto op = "quantized::linear_prepack";
  check_weight(weight, op, 2);
  LayerWeight layer;
  layer.shape.OC = weight.size(0);
  layer.shape.IC = weight.size(1);
  layer.tensor = weight.contiguous();
  read_quantizer(layer, op, 0);
  read_bias(layer, bias, op);
  return layer;
}

LayerWeight conv_weight(const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                        const ConvParameters& p, int spatial) {
  const char* op = p.transposed ? "quantized::conv_transpose_prepack" : "quantized::conv_prepack";
  check_weight(weight, op, spatial + 2);
  check_list(p.stride, op, "stride", spatial, 1);
  check_list(p.padding, op, "padding", spatial, 0);
  check_list(p.output_padding, op, "output_padding", spatial, 0);
  check_list(p.dilation, op, "dilation", spatial, 1);
  TORCH_CHECK(p.groups >= 1, op, ": expected groups to be at least 1, but got ", p.groups);
  const int64_t grouped = weight.size(0);
  TORCH_CHECK(grouped % p.groups == 0, op, ": groups = ", p.groups, " does not divide number of ",
              p.transposed ? "input" : "output", " channels = ", grouped);
  for (const int64_t size : weight.sizes()) {
    TORCH_CHECK(size > 0, op, ": expected every dimension of weight to be positive, but got shape ",
                weight.sizes());
  }
  LayerWeight layer;
  auto& shape = layer.shape;
  shape.kind = p.transposed ? LayerKind::conv_transpose : LayerKind::conv;
  shape.spatial = spatial;
  shape.groups = p.groups;
  shape.OC = p.transposed ? weight.size(1) * p.groups : weight.size(0);
  shape.IC = p.transposed ? weight.size(0) : weight.size(1) * p.groups;
  for (int i = 0; i < spatial; ++i) {
    shape.kernel[static_cast<size_t>(i)] = weight.size(i + 2);
  }
  copy_dims(p.stride, shape.stride);
  copy_dims(p.padding, shape.padding);
  copy_dims(p.output_padding, shape.output_padding);
  copy_dims(p.dilation, shape.dilation);
  const auto channels_last =
      spatial == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  layer.unpacked_format =
      ops::kReplacedEngine.channels_last_weights ? channels_last : weight.suggest_memory_format();
  layer.tensor = weight.contiguous();
  read_quantizer(layer, op, p.transposed ? 1 : 0);
  read_bias(layer, bias, op);
  return layer;
}

}  // namespace cpuaccel::quant
