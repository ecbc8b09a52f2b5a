#include "ops/intx_linear.h"

#include <torch/library.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/plugin.h"
#include "ops/data_type.h"
#include "ops/intx_packing.h"
#include "ops/intx_product.h"
#include "ops/packed_weight_cache.h"
#include "ops/plain_tensor.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kCounted = "intx_linear";

// As the cache can watch it.
bool is_dense(const at::Tensor& tensor) {
  return is_plain(tensor) && tensor.is_non_overlapping_and_dense();
}

const char* fallback_reason(const IntxLinear& call) {
  if (!plugin_on()) {
    return reasons::kOff;
  }
  if (!is_gemm_type(call.input.scalar_type()) || !is_gemm_type(call.scale.scalar_type())) {
    return reasons::kDtype;
  }
  if (!is_plain(call.input) || !is_dense(call.codes) || !is_dense(call.scale) ||
      (call.zero_point && !is_dense(*call.zero_point))) {
    return reasons::kLayout;
  }
  if (call.codes.numel() == 0) {
    return reasons::kEmpty;
  }
  const int64_t group = call.integers().group();
  if (group != call.codes.size(1) && group % 8 != 0) {
    return "the group size is no multiple of 8";
  }
  return nullptr;
}

bool has_zeros(const IntxLinear& call) {
  return call.zero_point && (call.zero_point->is_floating_point() ||
                             call.zero_point->count_nonzero().item<int64_t>() != 0);
}

// Null if a code or a zero point is out of range.
std::shared_ptr<const kernels::WqWeights> packed(const IntxLinear& call) {
  std::vector<at::Tensor> made_of{call.codes, call.scale};
  if (call.zero_point) {
    made_of.push_back(*call.zero_point);
  }
  const auto form = call.bits == 4 ? WeightForm::groups4 : WeightForm::groups8;
  return PackedWeightCache::instance()
      .get(made_of, form,
           [&] {
             const std::optional<at::Tensor> none;
             const IntxCodes from{call.codes, call.scale, has_zeros(call) ? call.zero_point : none,
                                  call.bits};
             const auto weights = std::make_shared<kernels::WqWeights>(
                 packed_format(from), call.codes.size(0), call.codes.size(1));
             CachedPackedWeight result;
             result.groups = pack_codes(from, *weights) ? weights : nullptr;
             return result;
           })
      .groups;
}

at::Tensor intx_linear(const at::Tensor& input, const at::Tensor& codes, const at::Tensor& scale,
                       const std::optional<at::Tensor>& zero_point,
                       const std::optional<at::Tensor>& bias, int64_t bits, bool quantize) {
  const IntxLinear call{input, codes, scale, zero_point, bias, bits, quantize};
  check(call);
  const char* reason = fallback_reason(call);
  if (reason == nullptr) {
    if (const auto weights = packed(call)) {
      return intx_product(input, *weights, bias, quantize);
    }
    reason = "a code or a zero point out of range";
  }
  report_fallback(kCounted, reason);
  return intx_linear_by_torch(call);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "intx_linear(Tensor input, Tensor codes, Tensor scale, Tensor? zero_point, Tensor? bias, int "
      "bits, bool quantize) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("intx_linear", intx_linear); }

}  // namespace cpuaccel::ops
