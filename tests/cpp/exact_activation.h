// The activations of base/activations.inc in float64, and the allowed errors of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/activation.h"

namespace cpuaccel::kernels {

inline double exact_activation(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::hardswish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return x * 0.5 *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::none:
      break;
  }
  return x;
}

// The allowed error of a result.
inline double activation_error(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return 0.0;
    case Activation::gelu:
    case Activation::gelu_tanh:
      return 1e-36 + std::ldexp(std::abs(x), -20);
    default:
      return 1e-36 + 5.0 * std::ldexp(std::abs(exact_activation(activation, x)), -24);
  }
}

}  // namespace cpuaccel::kernels
