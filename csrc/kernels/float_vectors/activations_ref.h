// The activations of base/activations.inc for one number, for the reference kernels.
#pragma once

#include <cmath>
#include <numbers>

#include "base/activation.h"

namespace cpuaccel::kernels {
namespace {

inline float relu_ref(float x) { return x < 0.0f ? 0.0f : x; }
inline float hardswish_ref(float x) {
  return x * std::fmin(std::fmax(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
}
inline float silu_ref(float x) { return x / (1.0f + std::exp(-x)); }
inline float gelu_ref(float x) { return x * 0.5f * std::erfc(-x / std::numbers::sqrt2_v<float>); }
// x * sigmoid(2 * y), y the argument of tanh
inline float gelu_tanh_ref(float x) {
  constexpr float kTwice = 2.0f * std::numbers::inv_sqrtpi_v<float> * std::numbers::sqrt2_v<float>;
  return x / (1.0f + std::exp(-kTwice * (x + 0.044715f * x * x * x)));
}

inline float activation_ref(Activation activation, float x) {
  switch (activation) {
    case Activation::none:
      break;
#define CPUACCEL_ACTIVATION(name, ...) \
  case Activation::name:               \
    return name##_ref(x);
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
  }
  return x;
}

}  // namespace
}  // namespace cpuaccel::kernels
