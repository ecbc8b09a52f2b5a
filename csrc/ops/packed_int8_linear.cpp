#include "ops/packed_int8_linear.h"

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <memory>
#include <stdexcept>

#include "base/plugin.h"
#include "kernels/qgemm/block.h"
#include "ops/data_type.h"
#include "ops/int8_product.h"
#include "ops/plain_tensor.h"
#include "ops/reasons.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

const std::optional<at::Tensor> kNone;

// The weights in `packed`, which outlives them. Throws if it is anything else.
kernels::QgemmWeights weights_in(const at::Tensor& packed) {
  TORCH_CHECK(packed.scalar_type() == at::kByte && packed.dim() == 1 && is_plain(packed) &&
                  packed.is_contiguous(),
              kPackedInt8Linear,
              ": expected packed to be the vector of uint8 that pack_int8 returned, but got ",
              packed.scalar_type(), " of shape ", packed.sizes());
  try {
    const auto* block = static_cast<const std::byte*>(packed.const_data_ptr());
    return kernels::qgemm_weights_in(block, packed.numel());
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK(false, kPackedInt8Linear,
                ": packed is not what pack_int8 returned: ", error.what());
  }
}

at::Tensor plain(const kernels::QgemmWeights& weights) {
  at::Tensor result = at::detail::empty_cpu({weights.N, weights.K}, at::kChar);
  kernels::qgemm_unpack(weights, result.mutable_data_ptr<int8_t>(), 1, weights.K);
  return result;
}

at::Tensor pack_int8(const at::Tensor& weight) {
  TORCH_CHECK(weight.scalar_type() == at::kChar && weight.dim() == 2 && is_plain(weight),
              "cpuaccel::pack_int8: expected weight to be an int8 matrix on the CPU, but got ",
              weight.scalar_type(), " of shape ", weight.sizes(), " on ", weight.device());
  const int64_t N = weight.size(0), K = weight.size(1);
  at::Tensor packed = at::detail::empty_cpu({kernels::qgemm_block_bytes(K, N)}, at::kByte);
  kernels::qgemm_pack_block({.data = weight.const_data_ptr<int8_t>(),
                             .K = K,
                             .N = N,
                             .k_stride = weight.stride(1),
                             .n_stride = weight.stride(0)},
                            static_cast<std::byte*>(packed.mutable_data_ptr()));
  return packed;
}

at::Tensor unpack_int8(const at::Tensor& packed, int64_t out_features, int64_t in_features) {
  const auto weights = weights_in(packed);
  TORCH_CHECK(weights.N == out_features && weights.K == in_features,
              "cpuaccel::unpack_int8: packed is ", weights.N, " x ", weights.K,
              ", but out_features is ", out_features, " and in_features ", in_features);
  return plain(weights);
}

const char* packed_int8_fallback_reason(const PackedInt8Linear& call,
                                        const kernels::QgemmWeights& weights) {
  return !plugin_on()                              ? reasons::kOff
         : !is_gemm_type(call.input.scalar_type()) ? reasons::kDtype
         : !is_plain(call.input)                   ? reasons::kLayout
         : weights.row == nullptr                  ? "the weight was packed for another CPU"
                                                   : nullptr;
}

at::Tensor packed_int8_linear(const at::Tensor& input, const at::Tensor& packed,
                              const at::Tensor& weight_scale, const std::optional<at::Tensor>& bias,
                              int64_t out_features, std::string_view quantize, bool symmetric,
                              const std::optional<at::Tensor>& scale,
                              const std::optional<at::Tensor>& zero_point, int64_t low,
                              int64_t high) {
  const PackedInt8Linear call{input,     packed, weight_scale, bias, out_features, quantize,
                              symmetric, scale,  zero_point,   low,  high};
  const auto weights = std::make_shared<const kernels::QgemmWeights>(weights_in(packed));
  TORCH_CHECK(weights->N == out_features, kPackedInt8Linear, ": packed has ", weights->N,
              " rows, but out_features is ", out_features);
  const Int8Linear with_packed = call.with(packed);
  check_operands(kPackedInt8Linear, with_packed, weights->N, weights->K);
  const char* reason = packed_int8_fallback_reason(call, *weights);
  at::Tensor result;
  if (reason == nullptr) {
    result = int8_product(with_packed,
                          {.N = weights->N,
                           .K = weights->K,
                           .packed = [&] { return weights; },
                           .plain = [&] { return plain(*weights); }},
                          reason);
  }
  if (reason != nullptr) {
    report_fallback("packed_int8_linear", reason);
    return packed_int8_linear_by_torch(call);
  }
  calls().add(counted_op(quantize), Provider::cpuaccel);
  return result;
}

}  // namespace

Int8Linear PackedInt8Linear::with(const at::Tensor& weight) const {
  return {input,     weight, weight_scale, kNone, bias, quantize,
          symmetric, scale,  zero_point,   low,   high};
}

at::Tensor unpacked_int8(const at::Tensor& packed) { return plain(weights_in(packed)); }

at::Tensor packed_int8_linear_by_torch(const PackedInt8Linear& call) {
  // By the dispatcher, because packed may be wrapped by a transform.
  static const auto unpack =
      registered_op<at::Tensor(const at::Tensor&, int64_t, int64_t)>("cpuaccel::unpack_int8");
  TORCH_CHECK(call.input.dim() > 0, kPackedInt8Linear,
              ": expected input to have one dimension at least, but got a scalar");
  const at::Tensor weight = unpack.call(call.packed, call.out_features, call.input.size(-1));
  const Int8Linear with_plain = call.with(weight);
  check(with_plain);
  return int8_linear_by_torch(with_plain);
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("pack_int8(Tensor weight) -> Tensor");
  library.def("unpack_int8(Tensor packed, int out_features, int in_features) -> Tensor");
  library.def(
      "packed_int8_linear(Tensor input, Tensor packed, Tensor weight_scale, Tensor? bias, int "
      "out_features, str quantize, bool symmetric, Tensor? scale, Tensor? zero_point, int low, int "
      "high) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("pack_int8", pack_int8);
  library.impl("unpack_int8", unpack_int8);
  library.impl("packed_int8_linear", packed_int8_linear);
}

}  // namespace cpuaccel::ops
