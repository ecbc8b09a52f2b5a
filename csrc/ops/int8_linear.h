// cpuaccel::int8_linear: linear layers with int8 weights, as torchao's Int8Tensor has them.
//
//   result[..., n] = bias[n] + sum over k of x[..., k] * (weight[n,k] - weight_zero_point[n])
//                                            * weight_scale[n]
//
// input: f32, bf16 or f16, of any strides; the result has its type. weight: int8, out_features x
// in_features. weight_scale, weight_zero_point: one, or out_features. x is by `quantize`
//   "none"    input
//   "row"     scale[m] * (q[m,k] - zero_point[m]), quantized with a scale for each row
//   "tensor"  the same with one scale for all rows
//   "given"   the same with the scales and zero points that are given: one, or one for each row
// `symmetric`, `low` and `high` choose the integers as kernels/quantize_by_row says, which are
// torchao's. Sums of integers are exact. They become f32, which is multiplied by scale[m], then fma
// with weight_scale[n] and bias[n], and rounded to the result's type.
//
// The gradient of the input is that of the dequantized weight, as if rounding x were the identity;
// torchao's is zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/counters.h"

namespace cpuaccel::ops {

inline constexpr auto kInt8Linear = "cpuaccel::int8_linear";

struct Int8Linear {
  const at::Tensor& input;
  const at::Tensor& weight;
  const at::Tensor& weight_scale;
  const std::optional<at::Tensor>& weight_zero_point;
  const std::optional<at::Tensor>& bias;
  std::string_view quantize;
  bool symmetric;
  const std::optional<at::Tensor>& scale;
  const std::optional<at::Tensor>& zero_point;
  int64_t low, high;
};

// Throws if an argument has a wrong shape, type or value.
void check(const Int8Linear& call);

// The same for a weight of N x K that is checked already; `op` is named in errors.
void check_operands(const char* op, const Int8Linear& call, int64_t N, int64_t K);

// Computes the formula by a kernel, counted under `counted`. Returns an undefined tensor and sets
// `reason` if no kernel computes it.
at::Tensor int8_linear_by_kernel(const Int8Linear& call, Op counted, const char*& reason);

// The same formula by torch's ops, in float32 (float64 for a float64 input), for all calls that no
// kernel supports. It has all derivatives and batching rules.
at::Tensor int8_linear_by_torch(const Int8Linear& call);

// What `quantize` = "row" makes of the input if it is not symmetric, in `arithmetic`.
at::Tensor rounded_rows(const at::Tensor& input, at::ScalarType arithmetic);

// (weight - weight_zero_point) * weight_scale in `type`.
at::Tensor dequantized_weight(const at::Tensor& weight, const at::Tensor& weight_scale,
                              const std::optional<at::Tensor>& weight_zero_point,
                              at::ScalarType type);

}  // namespace cpuaccel::ops
