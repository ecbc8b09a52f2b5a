#include <algorithm>

#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/float_vectors/functions_ref.h"

namespace cpuaccel::kernels {
namespace {

float apply(FloatFunction function, float x) {
  switch (function) {
    case FloatFunction::relu:
      return relu_ref(x);
    case FloatFunction::hardswish:
      return hardswish_ref(x);
    case FloatFunction::silu:
      return silu_ref(x);
    case FloatFunction::gelu:
      return gelu_ref(x);
    case FloatFunction::gelu_tanh:
      return gelu_tanh_ref(x);
  }
  return x;
}

}  // namespace

void eltwise_f32_ref(FloatFunction function, float* values, int64_t count) {
  std::transform(values, values + count, values, [&](float x) { return apply(function, x); });
}

}  // namespace cpuaccel::kernels
