// Gradients and transforms of cpuaccel::packed_intx_linear.

#include <torch/library.h>

#include "ops/integer_linear_autograd.h"
#include "ops/packed_intx_linear.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using OptionalBias = std::optional<at::Tensor>;

at::Tensor dispatch(const PackedIntxLinear& call) {
  using Signature =
      at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalBias&, int64_t, bool);
  static const auto op = registered_op<Signature>(kPackedIntxLinear);
  return op.call(call.input, call.packed, call.bias, call.out_features, call.quantize);
}

at::Tensor transformed(const PackedIntxLinear& call) {
  report_fallback("packed_intx_linear", kTransformed);
  return packed_intx_linear_by_torch(call);
}

at::Tensor unpacked_part(const WeightParts& parts, at::ScalarType type) {
  return unpacked_intx(parts[0], type);
}

at::Tensor autograd_packed_intx_linear(const at::Tensor& input, const at::Tensor& packed,
                                       const OptionalBias& bias, int64_t out_features,
                                       bool quantize) {
  const PackedIntxLinear call{input, packed, bias, out_features, quantize};
  if (is_transformed({&input, pointer_to(bias)})) {
    return transformed(call);
  }
  return integer_linear_autograd<unpacked_part>(input, bias, {packed},
                                                [&] { return dispatch(call); });
}

at::Tensor batched_packed_intx_linear(const at::Tensor& input, const at::Tensor& packed,
                                      const OptionalBias& bias, int64_t out_features,
                                      bool quantize) {
  return transformed({input, packed, bias, out_features, quantize});
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("packed_intx_linear", autograd_packed_intx_linear);
}

TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("packed_intx_linear", batched_packed_intx_linear);
}

}  // namespace cpuaccel::ops
