#include "ops/int8_linear.h"

#include <torch/library.h>

#include <algorithm>
#include <string>

#include "base/plugin.h"
#include "ops/data_type.h"
#include "ops/int8_product.h"
#include "ops/packed_weight_cache.h"
#include "ops/plain_tensor.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kCounted = "int8_linear";

bool is_zero(const at::Tensor& integers) {
  if (integers.scalar_type() != at::kChar || !integers.is_contiguous()) {
    return false;
  }
  const auto* values = integers.const_data_ptr<int8_t>();
  return std::all_of(values, values + integers.numel(), [](int8_t value) { return value == 0; });
}

const char* fallback_reason(const Int8Linear& call) {
  if (!plugin_on()) {
    return reasons::kOff;
  }
  if (!is_gemm_type(call.input.scalar_type())) {
    return reasons::kDtype;
  }
  if (!is_plain(call.input) || !is_plain(call.weight) || call.weight.numel() == 0 ||
      !call.weight.is_non_overlapping_and_dense()) {
    return reasons::kLayout;
  }
  if (call.weight_zero_point && !is_zero(*call.weight_zero_point)) {
    return "the weight has zero points";
  }
  return nullptr;
}

at::Tensor int8_linear(const at::Tensor& input, const at::Tensor& weight,
                       const at::Tensor& weight_scale,
                       const std::optional<at::Tensor>& weight_zero_point,
                       const std::optional<at::Tensor>& bias, std::string_view quantize,
                       bool symmetric, const std::optional<at::Tensor>& scale,
                       const std::optional<at::Tensor>& zero_point, int64_t low, int64_t high) {
  const Int8Linear call{input,      weight,   weight_scale, weight_zero_point,
                        bias,       quantize, symmetric,    scale,
                        zero_point, low,      high};
  check(call);
  const char* reason = nullptr;
  const at::Tensor result = int8_linear_by_kernel(call, counted_op(quantize), reason);
  if (reason == nullptr) {
    return result;
  }
  report_fallback(kCounted, reason);
  return int8_linear_by_torch(call);
}

}  // namespace

at::Tensor int8_linear_by_kernel(const Int8Linear& call, Op counted, const char*& reason) {
  reason = fallback_reason(call);
  const at::Tensor& weight = call.weight;
  at::Tensor result;
  if (reason == nullptr) {
    result = int8_product(call,
                          {.N = weight.size(0),
                           .K = weight.size(1),
                           .packed = [&] { return PackedWeightCache::instance().get_int8(weight); },
                           .plain = [&] { return weight; }},
                          reason);
  }
  if (reason == nullptr) {
    calls().add(counted, Provider::cpuaccel);
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "int8_linear(Tensor input, Tensor weight, Tensor weight_scale, Tensor? weight_zero_point, "
      "Tensor? bias, str quantize, bool symmetric, Tensor? scale, Tensor? zero_point, int low, int "
      "high) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("int8_linear", int8_linear); }

}  // namespace cpuaccel::ops
