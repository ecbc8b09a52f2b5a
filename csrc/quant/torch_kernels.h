// Torch's own kernels underneath ours: the ones that were there before.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/quantized/PackedParams.h>

#include <optional>
#include <string_view>

#include "quant/weight.h"

namespace cpuaccel::quant {

// The kernel registered for `name` ("quantized::linear_prepack") under `key` before ours.
class TorchKernel {
 public:
  TorchKernel(const char* name, c10::DispatchKey key);
  // Calls it with the arguments on `stack`, which then holds its result.
  void call(torch::jit::Stack& stack) const;

 private:
  c10::OperatorHandle op_;
  c10::DispatchKey key_;
  c10::SafeKernelFunction kernel_;
};

// The kernel kept for an op we stand over. Throws for any other name.
const TorchKernel& torch_kernel(std::string_view name);

// Torch's own packed objects for weights of ours: FBGEMM's class or, where torch's x86 engine
// prefers oneDNN, that one.
c10::intrusive_ptr<LinearPackedParamsBase> torch_linear_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias);

template <int kSpatial>
c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>> torch_conv_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias, const LayerShape& shape);

}  // namespace cpuaccel::quant
