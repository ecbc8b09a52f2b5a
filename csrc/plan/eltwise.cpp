#include "plan/eltwise.h"

#include <algorithm>

#include "base/parallel.h"
#include "dnnl/eltwise.h"
#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/eltwise_f32/eltwise_f32.h"

namespace cpuaccel::plan {
namespace {

// Some microseconds of work.
constexpr int64_t kGrain = 32768;

}  // namespace

Activation eltwise_of(const FloatPostOp& post_op) {
  const auto found =
      std::ranges::find_if(dnnl_layer::kEltwise, [&](const dnnl_layer::Eltwise& row) {
        return !post_op.operand && row.algorithm == post_op.algorithm &&
               row.alpha == post_op.alpha && row.beta == post_op.beta;
      });
  return found == dnnl_layer::kEltwise.end() ? Activation::none : found->activation;
}

bool is_slow_in_onednn(Activation activation) {
  return activation != Activation::none && activation != Activation::relu &&
         activation != Activation::hardswish;
}

void apply_eltwise(Activation activation, DataType type, void* values, int64_t count) {
  if (type == DataType::bf16) {
    return kernels::eltwise_bf16(activation, static_cast<uint16_t*>(values), count);
  }
  auto* const floats = static_cast<float*>(values);
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    kernels::eltwise_f32(activation, floats + begin, end - begin);
  });
}

}  // namespace cpuaccel::plan
