#include "ops/packed_intx_linear.h"

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <cstring>
#include <stdexcept>

#include "base/parallel.h"
#include "base/plugin.h"
#include "kernels/gemm_wq/header.h"
#include "ops/data_type.h"
#include "ops/intx_linear.h"
#include "ops/intx_packing.h"
#include "ops/intx_product.h"
#include "ops/plain_tensor.h"
#include "ops/reasons.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kPackedCounted = "packed_intx_linear";

kernels::WqWeights weights_in(const at::Tensor& packed) {
  TORCH_CHECK(packed.scalar_type() == at::kByte && packed.dim() == 1 && is_plain(packed) &&
                  packed.is_contiguous(),
              kPackedIntxLinear,
              ": expected packed to be the vector of uint8 that pack_intx returned, but got ",
              packed.scalar_type(), " of shape ", packed.sizes());
  try {
    // Nothing writes through it.
    auto* data = static_cast<std::byte*>(const_cast<void*>(packed.const_data_ptr()));
    return kernels::weights_behind_header(data, packed.numel());
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK(false, kPackedIntxLinear,
                ": packed is not what pack_intx returned: ", error.what());
  }
}

at::Tensor pack_intx(const at::Tensor& codes, const at::Tensor& scale,
                     const std::optional<at::Tensor>& zero_point, int64_t bits) {
  check_codes("cpuaccel::pack_intx", {codes, scale, zero_point, bits});
  TORCH_CHECK(is_gemm_type(scale.scalar_type()),
              "cpuaccel::pack_intx: expected scale to be float32, bfloat16 or float16, but got ",
              scale.scalar_type());
  const IntxCodes from{codes, scale, zero_point, bits};
  const kernels::WqFormat format = packed_format(from);
  TORCH_CHECK(format.group == codes.size(1) || format.group % 8 == 0,
              "cpuaccel::pack_intx: expected groups of a multiple of 8 columns, or of all ",
              codes.size(1), ", but got groups of ", format.group);
  const kernels::WqHeader header = kernels::wq_header(format, codes.size(0), codes.size(1));
  const auto panels = kernels::WqWeights(format, codes.size(0), codes.size(1), nullptr).bytes();
  at::Tensor packed =
      at::detail::empty_cpu({static_cast<int64_t>(sizeof(header) + panels)}, at::kByte);
  auto* data = static_cast<std::byte*>(packed.mutable_data_ptr());
  std::memcpy(data, &header, sizeof(header));
  kernels::WqWeights weights(format, codes.size(0), codes.size(1), data + sizeof(header));
  TORCH_CHECK(pack_codes(from, weights), "cpuaccel::pack_intx: a code or a zero point is not of ",
              bits, " bits");
  return packed;
}

at::Tensor unpack_intx(const at::Tensor& packed, int64_t out_features, int64_t in_features) {
  const kernels::WqWeights weights = weights_in(packed);
  TORCH_CHECK(weights.N() == out_features && weights.K() == in_features,
              "cpuaccel::unpack_intx: packed is ", weights.N(), " x ", weights.K(),
              ", but out_features is ", out_features, " and in_features ", in_features);
  at::Tensor result = at::detail::empty_cpu({out_features, in_features}, at::kFloat);
  auto* values = result.mutable_data_ptr<float>();
  parallel_for(0, out_features, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      weights.dequantize(n, values + n * in_features);
    }
  });
  return result;
}

const char* packed_fallback_reason(const PackedIntxLinear& call) {
  return !plugin_on()                              ? reasons::kOff
         : !is_gemm_type(call.input.scalar_type()) ? reasons::kDtype
         : !is_plain(call.input)                   ? reasons::kLayout
                                                   : nullptr;
}

at::Tensor packed_intx_linear(const at::Tensor& input, const at::Tensor& packed,
                              const std::optional<at::Tensor>& bias, int64_t out_features,
                              bool quantize) {
  const PackedIntxLinear call{input, packed, bias, out_features, quantize};
  const kernels::WqWeights weights = weights_of(call);
  if (const char* reason = packed_fallback_reason(call)) {
    report_fallback(kPackedCounted, reason);
    return packed_intx_linear_by_torch(call);
  }
  return intx_product(input, weights, bias, quantize);
}

}  // namespace

kernels::WqWeights weights_of(const PackedIntxLinear& call) {
  kernels::WqWeights weights = weights_in(call.packed);
  TORCH_CHECK(weights.N() == call.out_features, kPackedIntxLinear, ": packed has ", weights.N(),
              " rows, but out_features is ", call.out_features);
  check_input(kPackedIntxLinear, call.input, weights.K());
  check_bias(kPackedIntxLinear, call.bias, weights.N());
  return weights;
}

at::Tensor unpacked_intx(const at::Tensor& packed, at::ScalarType type) {
  const kernels::WqWeights weights = weights_in(packed);
  return unpack_intx(packed, weights.N(), weights.K()).to(type);
}

at::Tensor packed_intx_linear_by_torch(const PackedIntxLinear& call) {
  // By the dispatcher, because packed may be wrapped by a transform.
  static const auto unpack =
      registered_op<at::Tensor(const at::Tensor&, int64_t, int64_t)>("cpuaccel::unpack_intx");
  check_input(kPackedIntxLinear, call.input, call.input.dim() > 0 ? call.input.size(-1) : 0);
  const at::Tensor weight = unpack.call(call.packed, call.out_features, call.input.size(-1));
  return linear_by_torch(call.input, weight.to(arithmetic_of(call.input)), call.bias,
                         call.quantize);
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("pack_intx(Tensor codes, Tensor scale, Tensor? zero_point, int bits) -> Tensor");
  library.def("unpack_intx(Tensor packed, int out_features, int in_features) -> Tensor");
  library.def(
      "packed_intx_linear(Tensor input, Tensor packed, Tensor? bias, int out_features, bool "
      "quantize) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("pack_intx", pack_intx);
  library.impl("unpack_intx", unpack_intx);
  library.impl("packed_intx_linear", packed_intx_linear);
}

}  // namespace cpuaccel::ops
