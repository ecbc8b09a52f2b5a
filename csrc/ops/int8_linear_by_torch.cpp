// cpuaccel::int8_linear by torch's ops, and the checks of its arguments.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>

#include <limits>

#include "ops/int8_linear.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

// A vector of one element for each row of a matrix, or one for all, as a column.
at::Tensor as_column(const at::Tensor& values, at::ScalarType type) {
  return values.reshape({-1, 1}).to(type);
}

// x with the integers that kernels/quantize_by_row chooses. x is a matrix of f32 or f64; `type` is
// the input's.
at::Tensor quantized_rows(const Int8Linear& call, const at::Tensor& x, at::ScalarType type) {
  const auto low = static_cast<double>(call.low), high = static_cast<double>(call.high);
  const at::Tensor values = x.detach();
  const auto rounded = [&](const at::Tensor& v) { return v.to(type).to(x.scalar_type()); };
  at::Tensor scale, zero_point;
  if (call.quantize == "given") {
    scale = as_column(*call.scale, x.scalar_type());
    zero_point =
        call.zero_point ? as_column(*call.zero_point, x.scalar_type()) : at::zeros_like(scale);
  } else {
    constexpr double kSmallest = 0x1p-23;
    const bool of_rows = call.quantize == "row";
    const at::Tensor least =
        (of_rows ? values.amin({1}, true) : values.amin().reshape({1, 1})).clamp_max(0);
    const at::Tensor most =
        (of_rows ? values.amax({1}, true) : values.amax().reshape({1, 1})).clamp_min(0);
    if (call.symmetric) {
      scale = rounded(at::maximum(-least, most) / ((high - low) / 2)).clamp_min(kSmallest);
      zero_point = at::zeros_like(scale);
    } else {
      scale = rounded(rounded(most - least) / (high - low)).clamp_min(kSmallest);
      zero_point = (low - rounded(least / scale).round()).clamp(low, high);
    }
  }
  const at::Tensor integers = ((values * (1.0 / scale)).round() + zero_point).clamp(low, high);
  const at::Tensor rounded_x = (integers - zero_point) * scale;
  const bool differentiable = x.requires_grad() || is_transformed({&x});
  return differentiable ? rounded_x.detach() + (x - values) : rounded_x;
}

}  // namespace

void check(const Int8Linear& call) {
  const at::Tensor& weight = call.weight;
  TORCH_CHECK(weight.dim() == 2 && weight.scalar_type() == at::kChar, kInt8Linear,
              ": expected weight to be an int8 matrix, but got ", weight.scalar_type(),
              " of shape ", weight.sizes());
  check_operands(kInt8Linear, call, weight.size(0), weight.size(1));
}

void check_operands(const char* op, const Int8Linear& call, int64_t N, int64_t K) {
  const auto& [input, weight, weight_scale, weight_zero_point, bias, quantize, symmetric, scale,
               zero_point, low, high] = call;
  TORCH_CHECK(input.is_floating_point() && input.dim() > 0 && input.size(-1) == K, op,
              ": expected input to be floats with a last dimension of ", K,
              ", the columns of weight, but got ", input.scalar_type(), " of shape ",
              input.sizes());
  const auto check_number = [&](const char* name, const at::Tensor& values, int64_t count,
                                const char* of) {
    TORCH_CHECK(values.numel() == 1 || values.numel() == count, op, ": expected ", name,
                " to have 1 element or ", count, ", one for each ", of, ", but got shape ",
                values.sizes());
  };
  check_number("weight_scale", weight_scale, N, "row of weight");
  if (weight_zero_point) {
    check_number("weight_zero_point", *weight_zero_point, N, "row of weight");
  }
  TORCH_CHECK(!bias || !bias->defined() || (bias->dim() == 1 && bias->size(0) == N), op,
              ": expected bias to be a vector of ", N, " elements, but got shape ", bias->sizes());
  TORCH_CHECK(
      quantize == "none" || quantize == "row" || quantize == "tensor" || quantize == "given", op,
      ": expected quantize to be none, row, tensor or given, but got ", quantize);
  TORCH_CHECK(std::numeric_limits<int8_t>::min() <= low && low < high &&
                  high <= std::numeric_limits<int8_t>::max(),
              op, ": expected low < high within -128 and 127, but got low = ", low,
              " and high = ", high);
  if (quantize == "given") {
    const int64_t rows = K > 0 ? input.numel() / K : 0;
    TORCH_CHECK(scale, op, ": expected a scale with quantize = given, but got None");
    check_number("scale", *scale, rows, "row of input");
    if (zero_point) {
      check_number("zero_point", *zero_point, scale->numel(), "scale");
    }
  }
}

at::Tensor rounded_rows(const at::Tensor& input, at::ScalarType arithmetic) {
  const std::optional<at::Tensor> none;
  const Int8Linear call{.input = input,
                        .weight = input,
                        .weight_scale = input,
                        .weight_zero_point = none,
                        .bias = none,
                        .quantize = "row",
                        .symmetric = false,
                        .scale = none,
                        .zero_point = none,
                        .low = -128,
                        .high = 127};
  const at::Tensor x = input.to(arithmetic).reshape({-1, input.size(-1)});
  return quantized_rows(call, x, input.scalar_type()).reshape(input.sizes());
}

at::Tensor dequantized_weight(const at::Tensor& weight, const at::Tensor& weight_scale,
                              const std::optional<at::Tensor>& weight_zero_point,
                              at::ScalarType type) {
  at::Tensor values = weight.to(type);
  if (weight_zero_point) {
    values = values - as_column(*weight_zero_point, type);
  }
  return values * as_column(weight_scale, type);
}

at::Tensor int8_linear_by_torch(const Int8Linear& call) {
  const auto type = call.input.scalar_type();
  const auto arithmetic = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor weight =
      dequantized_weight(call.weight, call.weight_scale, call.weight_zero_point, arithmetic);
  at::Tensor x = call.input.to(arithmetic);
  if (call.quantize != "none" && x.numel() > 0) {
    x = quantized_rows(call, x.reshape({-1, weight.size(1)}), type).reshape(x.sizes());
  }
  const bool biased = call.bias && call.bias->defined();
  return at::linear(x, weight, biased ? std::optional(call.bias->to(arithmetic)) : std::nullopt)
      .to(type);
}

}  // namespace cpuaccel::ops
