// Gradients and transforms of cpuaccel::packed_int8_linear.

#include <torch/library.h>

#include "ops/integer_linear_autograd.h"
#include "ops/packed_int8_linear.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor dispatch(const PackedInt8Linear& call) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const OptionalTensor&, int64_t, std::string_view, bool,
                               const OptionalTensor&, const OptionalTensor&, int64_t, int64_t);
  static const auto op = registered_op<Signature>(kPackedInt8Linear);
  return op.call(call.input, call.packed, call.weight_scale, call.bias, call.out_features,
                 call.quantize, call.symmetric, call.scale, call.zero_point, call.low, call.high);
}

at::Tensor transformed(const PackedInt8Linear& call) {
  report_fallback("packed_int8_linear", kTransformed);
  return packed_int8_linear_by_torch(call);
}

at::Tensor unpacked_and_scaled(const WeightParts& parts, at::ScalarType type) {
  return dequantized_weight(unpacked_int8(parts[0]), parts[1], std::nullopt, type);
}

at::Tensor autograd_packed_int8_linear(const at::Tensor& input, const at::Tensor& packed,
                                       const at::Tensor& weight_scale, const OptionalTensor& bias,
                                       int64_t out_features, std::string_view quantize,
                                       bool symmetric, const OptionalTensor& scale,
                                       const OptionalTensor& zero_point, int64_t low,
                                       int64_t high) {
  const PackedInt8Linear call{input,     packed, weight_scale, bias, out_features, quantize,
                              symmetric, scale,  zero_point,   low,  high};
  if (is_transformed({&input, pointer_to(bias)})) {
    return transformed(call);
  }
  return integer_linear_autograd<unpacked_and_scaled>(input, bias, {packed, weight_scale},
                                                      [&] { return dispatch(call); });
}

at::Tensor batched_packed_int8_linear(const at::Tensor& input, const at::Tensor& packed,
                                      const at::Tensor& weight_scale, const OptionalTensor& bias,
                                      int64_t out_features, std::string_view quantize,
                                      bool symmetric, const OptionalTensor& scale,
                                      const OptionalTensor& zero_point, int64_t low, int64_t high) {
  return transformed({input, packed, weight_scale, bias, out_features, quantize, symmetric, scale,
                      zero_point, low, high});
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("packed_int8_linear", autograd_packed_int8_linear);
}

TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("packed_int8_linear", batched_packed_int8_linear);
}

}  // namespace cpuaccel::ops
