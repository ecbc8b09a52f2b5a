// LayerWeight: the weights, bias, shape and quantizers of one int8 layer, in plain memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/api.h"

namespace cpuaccel::quant {

enum class LayerKind : uint8_t { linear, conv, conv_transpose };

// Shape and parameters of a layer. Spatial arrays have three entries, of which the first `spatial`
// count, slowest dimension first. Linear: spatial == 0, IC = K, OC = N.
struct CPUACCEL_API LayerShape {
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
  std::vector<int64_t> weight_sizes() const;
  // For explain() and logs: "conv2d 64->64 k3x3 s1x1 p1x1 d1x1 g1".
  std::string to_string() const;
};

// Plain int8 weights, dense, in torch's layout (LayerShape::weight_sizes()), with what keeps their
// memory alive. A copy shares the memory.
struct Int8Weights {
  const int8_t* data = nullptr;
  int64_t count = 0;
  std::shared_ptr<const void> owner;  // null: there are no weights

  bool defined() const { return owner != nullptr; }
};

// Calls body(offset in torch's layout, offset in the rows' layout, output channel) for each weight.
// The rows' layout is output channel, tap, src channel of its group.
template <typename Body>
void for_each_weight(const LayerShape& s, const Body& body) {
  const int64_t inputs = s.IC / s.groups, outputs = s.OC / s.groups, taps = s.taps();
  const bool transposed = s.kind == LayerKind::conv_transpose;
  for (int64_t oc = 0; oc < s.OC; ++oc) {
    for (int64_t c = 0; c < inputs; ++c) {
      const int64_t plane =
          transposed ? (oc / outputs * inputs + c) * outputs + oc % outputs : oc * inputs + c;
      for (int64_t tap = 0; tap < taps; ++tap) {
        body(plane * taps + tap, (oc * taps + tap) * inputs + c, static_cast<size_t>(oc));
      }
    }
  }
}

// New memory for `count` weights, which `fill` writes: it is called with the pointer to the first.
template <typename Fill>
Int8Weights new_weights(int64_t count, const Fill& fill) {
  const std::shared_ptr<int8_t[]> memory =
      std::make_unique_for_overwrite<int8_t[]>(static_cast<size_t>(count));
  fill(memory.get());
  return {memory.get(), count, memory};
}

// A layer's bias: OC floats. Its owner may move or change them between calls, so a kernel asks for
// the pointer in each call.
struct LayerBias {
  std::shared_ptr<const void> owner;  // null: no bias
  const float* (*data_of)(const void* owner) = nullptr;

  bool defined() const { return owner != nullptr; }
  // OC values, or null.
  const float* data() const { return defined() ? data_of(owner.get()) : nullptr; }
};

// A bias with memory of its own.
LayerBias new_bias(std::vector<float> values);

// real_weight[oc, ...] = scales[oc] * (weight[oc, ...] - zero_points[oc])
struct CPUACCEL_API LayerWeight {
  LayerShape shape;
  Int8Weights values;  // Layer::create() takes them
  LayerBias bias;
  // Whether output channels have quantizers of their own, or all the same.
  bool per_channel = false;
  // OC entries each.
  std::vector<float> scales;
  std::vector<int32_t> zero_points;
  // Whether sources of calls may be int8 (QuantCall::s8).
  bool s8_sources = false;

  // OC values, or null.
  const float* bias_data() const { return bias.data(); }
  bool symmetric() const;
  int64_t int8_bytes() const;
};

// Whether sum (src - src_zero_point) * (weight - zero_point) fits int32 for every uint8 src, so
// that kernels with int32 sums are exact.
bool sums_fit_int32(const LayerWeight& layer, const Int8Weights& values);

// The shape of a linear layer with weights of N x K, fewer than 2^31.
CPUACCEL_API LayerShape linear_shape(const std::vector<int64_t>& weight_sizes);

struct ConvParameters {
  std::vector<int64_t> stride, padding, output_padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
};

// The shape of a convolution with `spatial` spatial dimensions. weight_sizes: OC x IC/groups x
// kernel, or IC x OC/groups x kernel if transposed. Throws std::runtime_error unless every list in
// `parameters` has `spatial` entries that are possible, and groups divide the channels.
CPUACCEL_API LayerShape conv_shape(const std::vector<int64_t>& weight_sizes,
                                   const ConvParameters& parameters, int spatial);

}  // namespace cpuaccel::quant
