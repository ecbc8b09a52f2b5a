// The weights of one quantised layer as torch gives them to a prepack op, checked.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cpuaccel::quant {

enum class LayerKind : uint8_t { linear, conv, conv_transpose };

// Shape and parameters of a layer. Spatial arrays are padded to three entries, the first `spatial`
// of which count, slowest dimension first. Linear: spatial == 0, IC = K, OC = N.
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
  // For explain() and logs: "conv2d 64x64 k3x3 s1x1 p1x1 d1x1 g1".
  std::string to_string() const;
};

// real_weight[oc, ...] = scales[oc] * (weight[oc, ...] - zero_points[oc])
struct LayerWeight {
  LayerShape shape;
  at::Tensor tensor;  // qint8, contiguous; dropped once a kernel has packed it
  at::MemoryFormat unpacked_format = at::MemoryFormat::Contiguous;  // that of unpack()
  // float OC, contiguous. As in torch, the user's own memory where that is contiguous: a later
  // change of it in place counts.
  std::optional<at::Tensor> bias;
  bool per_channel = false;
  // What an exact copy of the quantiser needs: torch's own tensors, or scale and zero point.
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
  // The qint8 tensor with this quantiser around plain int8 values of torch's layout.
  at::Tensor requantized(const at::Tensor& int8_values) const;
};

// Whether sum (src - src_zero_point) * (weight - zero_point) stays within int32 for every uint8
// source, so that kernels with int32 sums are right. `int8_values` are those of torch's layout.
bool sums_fit_int32(const LayerWeight& layer, const at::Tensor& int8_values);

// Checks a linear layer's arguments: weight qint8 N x K, bias float N.
LayerWeight linear_weight(const at::Tensor& weight, const std::optional<at::Tensor>& bias);

struct ConvParameters {
  std::vector<int64_t> stride, padding, output_padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
};

// Checks a convolution's arguments. weight: OC x IC/groups x kernel, transposed: IC x OC/groups x
// kernel; all of `parameters`' lists have `spatial` entries.
LayerWeight conv_weight(const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                        const ConvParameters& parameters, int spatial);

}  // namespace cpuaccel::quant
