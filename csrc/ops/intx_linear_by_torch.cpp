// cpuaccel::intx_linear by torch's ops, and the checks of its arguments.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>

#include "ops/int8_linear.h"
#include "ops/intx_linear.h"

namespace cpuaccel::ops {

void check_codes(const char* op, const IntxCodes& of) {
  const auto& [codes, scale, zero_point, bits] = of;
  TORCH_CHECK(bits == 4 || bits == 8, op, ": expected bits to be 4 or 8, but got ", bits);
  TORCH_CHECK(codes.dim() == 2 && codes.scalar_type() == at::kChar, op,
              ": expected codes to be an int8 matrix, but got ", codes.scalar_type(), " of shape ",
              codes.sizes());
  const bool divides = scale.dim() == 2 && scale.size(1) > 0 && codes.size(1) % scale.size(1) == 0;
  TORCH_CHECK(scale.is_floating_point() && divides && scale.size(0) == codes.size(0), op,
              ": expected scale to be floats of shape [", codes.size(0),
              ", groups], where groups divides ", codes.size(1), ", but got ", scale.scalar_type(),
              " of shape ", scale.sizes());
  TORCH_CHECK(!zero_point || zero_point->sizes() == scale.sizes(), op,
              ": expected zero_point to have the shape of scale, ", scale.sizes(), ", but got ",
              zero_point ? zero_point->sizes() : at::IntArrayRef());
}

void check_input(const char* op, const at::Tensor& input, int64_t in_features) {
  TORCH_CHECK(input.is_floating_point() && input.dim() > 0 && input.size(-1) == in_features, op,
              ": expected input to be floats with a last dimension of ", in_features,
              ", the columns of the weight, but got ", input.scalar_type(), " of shape ",
              input.sizes());
}

void check_bias(const char* op, const std::optional<at::Tensor>& bias, int64_t out_features) {
  TORCH_CHECK(!bias || !bias->defined() || (bias->dim() == 1 && bias->size(0) == out_features), op,
              ": expected bias to be a vector of ", out_features, " elements, but got shape ",
              bias->sizes());
}

void check(const IntxLinear& call) {
  check_codes(kIntxLinear, call.integers());
  check_input(kIntxLinear, call.input, call.codes.size(1));
  check_bias(kIntxLinear, call.bias, call.codes.size(0));
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

at::ScalarType arithmetic_of(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor linear_by_torch(const at::Tensor& input, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, bool quantize) {
  const auto arithmetic = weight.scalar_type();
  const bool rounds = quantize && input.numel() > 0, biased = bias && bias->defined();
  const at::Tensor x = rounds ? rounded_rows(input, arithmetic) : input.to(arithmetic);
  return at::linear(x, weight, biased ? std::optional(bias->to(arithmetic)) : std::nullopt)
      .to(input.scalar_type());
}

at::Tensor intx_linear_by_torch(const IntxLinear& call) {
  const auto type = arithmetic_of(call.input);
  return linear_by_torch(call.input,
                         dequantized_codes(call.codes, call.scale, call.zero_point, type),
                         call.bias, call.quantize);
}

}  // namespace cpuaccel::ops
