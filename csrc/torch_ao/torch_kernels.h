// Packs weights into torch's own packed-weight objects, for calls that fall back to torch.
#pragma once

#include <optional>

#include "torch_ao/names.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {

// torch's own packed objects for cpuaccel's weights: on x86 FBGEMM's class or, if torch's x86
// engine prefers oneDNN, oneDNN's; on Arm the class of the engine that is set.
c10::intrusive_ptr<LinearPackedParamsBase> torch_linear_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias);

template <int kSpatial>
c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>> torch_conv_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias, const LayerShape& shape);

}  // namespace cpuaccel::torch_ao
