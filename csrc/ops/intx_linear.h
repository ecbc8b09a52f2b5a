// cpuaccel::intx_linear: linear layers with weights of up to 8 bits that have scales for groups, as
// torchao's IntxUnpackedToInt8Tensor has them.
//
//   result[..., n] = bias[n] + sum over k of x[..., k] * (codes[n,k] - zero_point[n,g]) *
//   scale[n,g] g = k / (in_features / groups)
//
// input: f32, bf16 or f16, of any strides; the result has its type. codes: int8, out_features x
// in_features; those of 4 bits are -8 to 7. scale: floats, out_features x groups. zero_point: of
// the same shape, integers of the codes' range, or floats, or none.
//
// x is input, or, with `quantize`, scale[m] * (q[m,k] - zero_point[m]) with a scale and a zero
// point for each row, of -128 to 127, which kernels/quantize_by_row chooses as torchao does.
// Arithmetic is f32, or that of integers (kernels/gemm_wq, kernels/qgemm_wq); torchao rounds x and
// the weight to the input's type.
//
// The gradient of the input is that of the dequantized weight, as if rounding x were the identity.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/intx_packing.h"

namespace cpuaccel::ops {

inline constexpr auto kIntxLinear = "cpuaccel::intx_linear";

struct IntxLinear {
  const at::Tensor& input;
  const at::Tensor& codes;
  const at::Tensor& scale;
  const std::optional<at::Tensor>& zero_point;
  const std::optional<at::Tensor>& bias;
  int64_t bits;  // 4 or 8
  bool quantize;

  IntxCodes integers() const { return {codes, scale, zero_point, bits}; }
};

// Throws if an argument has a wrong shape, type or value.
void check(const IntxLinear& call);
// Parts of it, also for other ops: `op` is the name in the message.
void check_codes(const char* op, const IntxCodes& codes);
void check_input(const char* op, const at::Tensor& input, int64_t in_features);
void check_bias(const char* op, const std::optional<at::Tensor>& bias, int64_t out_features);

// The same formula by torch's ops, in float32 (float64 for a float64 input), for all calls that no
// kernel supports. It has all derivatives and batching rules.
at::Tensor intx_linear_by_torch(const IntxLinear& call);

// The type of that arithmetic.
at::ScalarType arithmetic_of(const at::Tensor& input);

// The same with a dequantized weight of that type.
at::Tensor linear_by_torch(const at::Tensor& input, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, bool quantize);

// (codes - zero_point) * scale in `type`.
at::Tensor dequantized_codes(const at::Tensor& codes, const at::Tensor& scale,
                             const std::optional<at::Tensor>& zero_point, at::ScalarType type);

}  // namespace cpuaccel::ops
