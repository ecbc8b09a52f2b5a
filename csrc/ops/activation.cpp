#include "ops/activation.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include "kernels/eltwise_f32/eltwise_f32.h"

namespace cpuaccel::ops {

Activation find_activation(const char* op, std::string_view name) {
  const auto found = activation_named(name);
  TORCH_CHECK(found, op, ": expected function to be ", kExpectedActivation, ", but got ", name);
  return *found;
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::none:
      break;
#define CPUACCEL_ACTIVATION(name, algorithm, alpha, beta, torch, arguments) \
  case Activation::name:                                                    \
    return at::torch arguments;
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
  }
  return x;
}

void activate_(Activation activation, at::Tensor& x) {
  switch (activation) {
    case Activation::none:
      break;
#define CPUACCEL_ACTIVATION(name, algorithm, alpha, beta, torch, arguments) \
  case Activation::name:                                                    \
    at::torch##_ arguments;                                                 \
    break;
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
  }
}

kernels::GemmAfter gemm_after(Activation activation) {
  return activation == Activation::none
             ? kernels::GemmAfter{}
             : kernels::GemmAfter{kernels::eltwise_f32_of,
                                  &kActivations[static_cast<size_t>(activation)]};
}

}  // namespace cpuaccel::ops
