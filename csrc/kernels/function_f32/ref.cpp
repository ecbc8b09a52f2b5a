#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/function_f32/function_f32.h"

namespace cpuaccel::kernels {
namespace {

float apply(FloatFunction function, float x) {
  switch (function) {
    case FloatFunction::relu:
      return x < 0.0f ? 0.0f : x;
    case FloatFunction::hardswish:
      return x * std::clamp(x + 3.0f, 0.0f, 6.0f) / 6.0f;
    case FloatFunction::silu:
      return x / (1.0f + std::exp(-x));
    case FloatFunction::gelu:
      return x * 0.5f * std::erfc(-x / std::numbers::sqrt2_v<float>);
    case FloatFunction::gelu_tanh: {
      const float twice = 2.0f * std::numbers::inv_sqrtpi_v<float> * std::numbers::sqrt2_v<float>;
      return x / (1.0f + std::exp(-twice * (x + 0.044715f * x * x * x)));
    }
  }
  return x;
}

}  // namespace

void function_f32_ref(FloatFunction function, float* values, int64_t count) {
  std::transform(values, values + count, values, [&](float x) { return apply(function, x); });
}

}  // namespace cpuaccel::kernels
