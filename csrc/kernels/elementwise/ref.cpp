#include <algorithm>
#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace cpuaccel::kernels {
namespace {

float value_of(const ElementwiseRun& run, float a, float b) {
  switch (run.op) {
    case ElementwiseOp::add:
      return a + b;
    case ElementwiseOp::subtract:
      return a - b;
    case ElementwiseOp::multiply:
      return a * b;
    case ElementwiseOp::divide:
      return a / b;
    case ElementwiseOp::square:
      return a * a;
    case ElementwiseOp::exp:
      return std::exp(a);
    case ElementwiseOp::sigmoid:
      return 1.0f / (1.0f + std::exp(-a));
    case ElementwiseOp::tanh:
      return std::tanh(a);
    case ElementwiseOp::clamp:
      return std::min(std::max(a, run.low), run.high);  // a NaN stays, being the first operand
    case ElementwiseOp::activation:
      break;  // eltwise_f32 computes it
  }
  return a;
}

}  // namespace

void elementwise_ref(const ElementwiseRun& run) {
  for (int64_t i = 0; i < run.count; ++i) {
    run.dst[i] = value_of(run, run.a[i], run.b[i]);
  }
}

}  // namespace cpuaccel::kernels
