#include "plan/eltwise.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "kernels/eltwise_bf16/eltwise_bf16.h"

namespace cpuaccel::plan {
namespace {

using Algorithm = dnnl::algorithm;
using kernels::FloatFunction;

struct FunctionRow {
  Algorithm algorithm;
  float alpha, beta;
  FloatFunction function;
};
constexpr std::array kFunctions{
    FunctionRow{Algorithm::eltwise_relu, 0, 0, FloatFunction::relu},
    FunctionRow{Algorithm::eltwise_hardswish, 1.0f / 6, 0.5f, FloatFunction::hardswish},
    FunctionRow{Algorithm::eltwise_swish, 1, 0, FloatFunction::silu},
    FunctionRow{Algorithm::eltwise_gelu_erf, 0, 0, FloatFunction::gelu},
    FunctionRow{Algorithm::eltwise_gelu_tanh, 0, 0, FloatFunction::gelu_tanh},
};

// Some microseconds of work.
constexpr int64_t kGrain = 32768;

}  // namespace

std::optional<FloatFunction> eltwise_of(const PostOp& post_op) {
  const auto found = std::find_if(kFunctions.begin(), kFunctions.end(), [&](const auto& row) {
    return !post_op.operand && row.algorithm == post_op.algorithm && row.alpha == post_op.alpha &&
           row.beta == post_op.beta;
  });
  return found == kFunctions.end() ? std::nullopt : std::optional(found->function);
}

bool is_slow_in_onednn(FloatFunction function) {
  return function == FloatFunction::silu || function == FloatFunction::gelu ||
         function == FloatFunction::gelu_tanh;
}

void apply_eltwise(FloatFunction function, DataType type, void* values, int64_t count) {
  if (type == DataType::bf16) {
    return kernels::eltwise_bf16(function, static_cast<uint16_t*>(values), count);
  }
  auto* const floats = static_cast<float*>(values);
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    kernels::eltwise_f32(function, floats + begin, end - begin);
  });
}

}  // namespace cpuaccel::plan
