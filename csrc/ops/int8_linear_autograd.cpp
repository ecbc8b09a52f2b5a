// Gradients and transforms of cpuaccel::int8_linear.

#include <torch/library.h>

#include "ops/int8_linear.h"
#include "ops/integer_linear_autograd.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using Optional = std::optional<at::Tensor>;

at::Tensor dispatch(const Int8Linear& call) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const Optional&, const Optional&, std::string_view, bool,
                               const Optional&, const Optional&, int64_t, int64_t);
  static const auto op = registered_op<Signature>(kInt8Linear);
  return op.call(call.input, call.weight, call.weight_scale, call.weight_zero_point, call.bias,
                 call.quantize, call.symmetric, call.scale, call.zero_point, call.low, call.high);
}

at::Tensor transformed(const Int8Linear& call) {
  check(call);
  report_fallback("int8_linear", kTransformed);
  return int8_linear_by_torch(call);
}

at::Tensor autograd_int8_linear(const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& weight_scale, const Optional& weight_zero_point,
                                const Optional& bias, std::string_view quantize, bool symmetric,
                                const Optional& scale, const Optional& zero_point, int64_t low,
                                int64_t high) {
  const Int8Linear call{input,      weight,   weight_scale, weight_zero_point,
                        bias,       quantize, symmetric,    scale,
                        zero_point, low,      high};
  if (is_transformed({&input, pointer_to(bias)})) {
    return transformed(call);
  }
  return integer_linear_autograd<dequantized_by<dequantized_weight>>(
      input, bias, {call.weight, call.weight_scale, call.weight_zero_point.value_or(at::Tensor())},
      [&] { return dispatch(call); });
}

// vmap: the rows of each example have scales of their own, so one scale for all rows is not that of
// the batch.
at::Tensor batched_int8_linear(const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& weight_scale, const Optional& weight_zero_point,
                               const Optional& bias, std::string_view quantize, bool symmetric,
                               const Optional& scale, const Optional& zero_point, int64_t low,
                               int64_t high) {
  const Int8Linear call{input,      weight,   weight_scale, weight_zero_point,
                        bias,       quantize, symmetric,    scale,
                        zero_point, low,      high};
  return transformed(call);
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("int8_linear", autograd_int8_linear);
}

TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("int8_linear", batched_int8_linear);
}

}  // namespace cpuaccel::ops
