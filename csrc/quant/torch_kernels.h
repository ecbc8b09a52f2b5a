// Torch's own packed objects, for the calls that torch is to run.
#pragma once

#include <ATen/native/quantized/PackedParams.h>

#include <optional>

#include "quant/weight.h"

namespace cpuaccel::quant {

// Torch's own packed objects for weights of ours: on x86 FBGEMM's class or, where torch's x86
// engine prefers oneDNN, that one; on Arm that of the engine that is set.
c10::intrusive_ptr<LinearPackedParamsBase> torch_linear_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias);

template <int kSpatial>
c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>> torch_conv_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias, const LayerShape& shape);

}  // namespace cpuaccel::quant
