// LayerWeight: the checked weight, bias, shape and quantizers of one quantized layer, as a torch
// prepack op gets them.
#pragma once

#include <ATen/core/DimVector.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cpuaccel::quant {

enum class LayerKind : uint8_t { linear, conv, conv_transpose };

// Shape and parameters of a layer. Spatial arrays have three entries, of which the first `spatial`
// count, slowest dimension first. Linear: spatial == 0, IC = K, OC = N.
struct LayerShape {
  LayerKind kind = LayerKind::linear;
  int spatial = 0;
  int64_t IC = 0, OC = 0, groups = 1;
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, padding{}, output_padding{},
      dilation{1, 1, 1};

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  bool depthwise() const { return groups > 1 && groups == IC && groups == OC; }
  // Spatial size of the result for a source of this size.
  std::array<int64_t, 3> dst_dims(const std::array<int64_t, 3>& src) const;
  // Sizes of the weight in torch's layout: OC x IC/groups x kernel, or IC x OC/groups x kernel if
  // transposed.
  at::DimVector weight_sizes() const;
  // For explain() and logs: "conv2d 64->64 k3x3 s1x1 p1x1 d1x1 g1".
  std::string to_string() const;
};

// real_weight[oc, ...] = scales[oc] * (weight[oc, ...] - zero_points[oc])
struct LayerWeight {
  LayerShape shape;
  at::Tensor tensor;  // qint8, contiguous; Layer::create() resets it
  at::MemoryFormat unpacked_format = at::MemoryFormat::Contiguous;  // of unpack()
  // float, OC elements, contiguous. As in torch, an alias of the user's tensor if that is
  // contiguous: a later mutation of it takes effect.
  std::optional<at::Tensor> bias;
  bool per_channel = false;
  // The quantizer exactly as torch has it: tensors per channel, or one scale and zero point.
  at::Tensor channel_scales, channel_zero_points;
  double tensor_scale = 1.0;
  int64_t tensor_zero_point = 0;
  // The same for the kernels, one entry per output channel.
  std::vector<float> scales;
  std::vector<int32_t> zero_points;

  // OC values, or null.
  const float* bias_data() const;
  bool symmetric() const;
  int64_t int8_bytes() const;
  // Plain int8 values in torch's layout as a qint8 tensor with this quantizer.
  at::Tensor requantized(const at::Tensor& int8_values) const;
};

// Whether sum (src - src_zero_point) * (weight - zero_point) fits int32 for every uint8 src, so
// that kernels with int32 sums are exact. `int8_values` are in torch's layout.
bool sums_fit_int32(const LayerWeight& layer, const at::Tensor& int8_values);

// Checks a linear layer's arguments: weight qint8 N x K, bias float N.
LayerWeight linear_weight(const at::Tensor& weight, const std::optional<at::Tensor>& bias);

struct ConvParameters {
  std::vector<int64_t> stride, padding, output_padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
};

// Checks a convolution's arguments. weight: OC x IC/groups x kernel, or IC x OC/groups x kernel if
// transposed. Every list in `parameters` has `spatial` entries.
LayerWeight conv_weight(const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                        const ConvParameters& parameters, int spatial);

}  // namespace cpuaccel::quant
