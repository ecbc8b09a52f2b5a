// Gradients and transforms of cpuaccel::intx_linear.

#include <torch/library.h>

#include "ops/integer_linear_autograd.h"
#include "ops/intx_linear.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using Optional = std::optional<at::Tensor>;

at::Tensor dispatch(const IntxLinear& call) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const Optional&, const Optional&, int64_t, bool);
  static const auto op = registered_op<Signature>(kIntxLinear);
  return op.call(call.input, call.codes, call.scale, call.zero_point, call.bias, call.bits,
                 call.quantize);
}

at::Tensor transformed(const IntxLinear& call) {
  check(call);
  report_fallback("intx_linear", kTransformed);
  return intx_linear_by_torch(call);
}

at::Tensor autograd_intx_linear(const at::Tensor& input, const at::Tensor& codes,
                                const at::Tensor& scale, const Optional& zero_point,
                                const Optional& bias, int64_t bits, bool quantize) {
  const IntxLinear call{input, codes, scale, zero_point, bias, bits, quantize};
  if (is_transformed({&input, pointer_to(bias)})) {
    return transformed(call);
  }
  return integer_linear_autograd<dequantized_by<dequantized_codes>>(
      input, bias, {call.codes, call.scale, call.zero_point.value_or(at::Tensor())},
      [&] { return dispatch(call); });
}

at::Tensor batched_intx_linear(const at::Tensor& input, const at::Tensor& codes,
                               const at::Tensor& scale, const Optional& zero_point,
                               const Optional& bias, int64_t bits, bool quantize) {
  return transformed({input, codes, scale, zero_point, bias, bits, quantize});
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("intx_linear", autograd_intx_linear);
}

TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("intx_linear", batched_intx_linear);
}

}  // namespace cpuaccel::ops
