// PackedLayer: a layer of the int8 engine, made from the quantized tensors that a torch prepack op
// gets, and what the engine does not keep of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {

class PackedLayer {
 public:
  // weight: qint8, N x K; bias: float, N, or none. As in torch, a contiguous bias stays the user's:
  // a later mutation of it takes effect. Returns nullopt and sets `reason` if no provider takes the
  // weight and torch's engine does. Throws c10::Error on bad arguments.
  static std::optional<PackedLayer> linear(const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias,
                                           std::string& reason);
  // weight: OC x IC/groups x kernel, or IC x OC/groups x kernel if transposed. Every list in
  // `parameters` has `spatial` entries.
  static std::optional<PackedLayer> convolution(const at::Tensor& weight,
                                                const std::optional<at::Tensor>& bias,
                                                const ConvParameters& parameters, int spatial,
                                                std::string& reason);

  quant::Layer* operator->() const { return layer_.get(); }

  // The weight as torch had it (same values, same quantizer) and the bias.
  std::tuple<at::Tensor, std::optional<at::Tensor>> unpack() const;
  const std::optional<at::Tensor>& bias() const { return bias_; }
  // Whether torch's engine computes correct results with these weights, for every src.
  bool torch_takes() const;

 private:
  PackedLayer() = default;
  // Both read the arguments into `layer` as well.
  void read_quantizer(quant::LayerWeight& layer, const at::Tensor& weight, const char* op,
                      int64_t channel_axis);
  void read_bias(quant::LayerWeight& layer, const std::optional<at::Tensor>& bias, const char* op);
  static std::optional<PackedLayer> create(LayerShape shape, const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias, const char* op,
                                           at::MemoryFormat unpacked_format, std::string& reason);

  std::unique_ptr<quant::Layer> layer_;
  at::MemoryFormat unpacked_format_ = at::MemoryFormat::Contiguous;  // of unpack()
  std::optional<at::Tensor> bias_;
  // The quantizer exactly as torch has it: tensors per channel, or one scale and zero point.
  at::Tensor channel_scales_, channel_zero_points_;
  int64_t channel_axis_ = 0;
  double tensor_scale_ = 1.0;
  int64_t tensor_zero_point_ = 0;
};

}  // namespace cpuaccel::torch_ao
