// The elementwise functions of conv_dst.h in float64, and the allowed errors of kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/conv_dst.h"
#include "kernels/eltwise_f32/eltwise_f32.h"

namespace cpuaccel::kernels {

inline double exact_function(ConvFunction function, double x) {
  switch (function) {
    case ConvFunction::relu:
      return std::max(x, 0.0);
    case ConvFunction::hardswish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case ConvFunction::silu:
      return x / (1.0 + std::exp(-x));
    case ConvFunction::gelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case ConvFunction::gelu_tanh:
      return x * 0.5 *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case ConvFunction::none:
      break;
  }
  return x;
}

// The allowed error of a result.
inline double function_error(ConvFunction function, double x) {
  switch (function) {
    case ConvFunction::none:
      return 0.0;
    case ConvFunction::gelu:
    case ConvFunction::gelu_tanh:
      return 1e-36 + std::ldexp(std::abs(x), -20);
    default:
      return 1e-36 + 5.0 * std::ldexp(std::abs(exact_function(function, x)), -24);
  }
}

// The functions of families eltwise_f32 and eltwise_bf16.
struct FloatFunctionCase {
  FloatFunction function;
  ConvFunction same;  // the function of exact_function()
};
[[maybe_unused]] constexpr std::array kFloatFunctions{
    FloatFunctionCase{FloatFunction::relu, ConvFunction::relu},
    FloatFunctionCase{FloatFunction::hardswish, ConvFunction::hardswish},
    FloatFunctionCase{FloatFunction::silu, ConvFunction::silu},
    FloatFunctionCase{FloatFunction::gelu, ConvFunction::gelu},
    FloatFunctionCase{FloatFunction::gelu_tanh, ConvFunction::gelu_tanh}};

[[maybe_unused]] constexpr std::array kConvFunctions{
    ConvFunction::none, ConvFunction::relu, ConvFunction::hardswish,
    ConvFunction::silu, ConvFunction::gelu, ConvFunction::gelu_tanh};

}  // namespace cpuaccel::kernels
