// cpuaccel::intx_linear by torch's ops, and the checks of its arguments.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>

#include "ops/int8_linear.h"
#include "ops/intx_linear.h"

namespace cpuaccel::ops {

void check(const IntxLinear& call) {
  const auto& [input, codes, scale, zero_point, bias, bits, quantize] = call;
  TORCH_CHECK(bits == 4 || bits == 8, kIntxLinear, ": expected bits to be 4 or 8, but got ", bits);
  TORCH_CHECK(codes.dim() == 2 && codes.scalar_type() == at::kChar, kIntxLinear,
              ": expected codes to be an int8 matrix, but got ", codes.scalar_type(), " of shape ",
              codes.sizes());
  TORCH_CHECK(input.is_floating_point() && input.dim() > 0 && input.size(-1) == codes.size(1),
              kIntxLinear, ": expected input to be floats with a last dimension of ", codes.size(1),
              ", the columns of codes, but got ", input.scalar_type(), " of shape ", input.sizes());
  const bool divides = scale.dim() == 2 && scale.size(1) > 0 && codes.size(1) % scale.size(1) == 0;
  TORCH_CHECK(scale.is_floating_point() && divides && scale.size(0) == codes.size(0), kIntxLinear,
              ": expected scale to be floats of shape [", codes.size(0),
              ", groups], where groups divides ", codes.size(1), ", but got ", scale.scalar_type(),
              " of shape ", scale.sizes());
  TORCH_CHECK(!zero_point || zero_point->sizes() == scale.sizes(), kIntxLinear,
              ": expected zero_point to have the shape of scale, ", scale.sizes(), ", but got ",
              zero_point ? zero_point->sizes() : at::IntArrayRef());
  TORCH_CHECK(!bias || !bias->defined() || (bias->dim() == 1 && bias->size(0) == codes.size(0)),
              kIntxLinear, ": expected bias to be a vector of ", codes.size(0),
              " elements, but got shape ", bias->sizes());
}

at::Tensor dequantized_codes(const at::Tensor& codes, const at::Tensor& scale,
                             const std::optional<at::Tensor>& zero_point, at::ScalarType type) {
  const int64_t N = codes.size(0), groups = scale.size(1);
  at::Tensor values = codes.to(type).reshape({N, groups, groups == 0 ? 0 : codes.size(1) / groups});
  if (zero_point) {
    values = values - zero_point->to(type).unsqueeze(-1);
  }
  return (values * scale.to(type).unsqueeze(-1)).reshape(codes.sizes());
}

at::Tensor intx_linear_by_torch(const IntxLinear& call) {
  const auto type = call.input.scalar_type();
  const auto arithmetic = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor weight = dequantized_codes(call.codes, call.scale, call.zero_point, arithmetic);
  at::Tensor x = call.input;
  if (call.quantize && x.numel() > 0) {
    x = rounded_rows(x, arithmetic);
  }
  const bool biased = call.bias && call.bias->defined();
  return at::linear(x.to(arithmetic), weight,
                    biased ? std::optional(call.bias->to(arithmetic)) : std::nullopt)
      .to(type);
}

}  // namespace cpuaccel::ops
