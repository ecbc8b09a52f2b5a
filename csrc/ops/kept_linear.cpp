// cpuaccel::kept_linear: linear layers of compiled graphs, with cached packed weights.
//
//   result[..., n] = f(bias[n] + sum over k of input[..., k] * weight[n, k])
//
// weight: out_features x in_features. Result and bias have input's type. That may be bfloat16 for a
// float32 weight, which is rounded when it is packed. f is "" (nothing) or a name of
// base/activations.inc. The weight is packed once (packed_weight_cache.h). Other types, sizes and
// layouts fall back to torch's ops.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linear.h>
#include <torch/library.h>

#include <optional>
#include <string>

#include "base/plugin.h"
#include "ops/activation.h"
#include "ops/data_type.h"
#include "ops/matmul/fastmath.h"
#include "ops/packed_weight_cache.h"
#include "ops/prepack/linear.h"
#include "ops/reasons.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kKeptLinear = "cpuaccel::kept_linear";

at::Tensor kept_linear_by_torch(const at::Tensor& input, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, Activation activation) {
  const at::Tensor result = at::linear(input, weight.to(input.scalar_type()), bias);
  return activate(activation, result);
}

const char* kept_linear_fallback_reason(const at::Tensor& input, const at::Tensor& weight) {
  if (!plugin_on()) {
    return reasons::kOff;
  }
  const bool types = weight.scalar_type() == input.scalar_type() ||
                     (weight.scalar_type() == at::kFloat && input.scalar_type() == at::kBFloat16);
  if (!types || !is_gemm_type(weight.scalar_type())) {
    return "unsupported dtype of input or weight";
  }
  if (weight.dim() != 2 || weight.layout() != at::kStrided || !weight.device().is_cpu() ||
      weight.is_neg() || weight.numel() == 0 || !weight.is_non_overlapping_and_dense()) {
    return "weight is not a dense matrix";
  }
  return nullptr;
}

bool in_pairs(const at::Tensor& input, const at::Tensor& weight) {
  return packs_pairs() && (input.scalar_type() == at::kBFloat16 ||
                           (weight.scalar_type() == at::kFloat && fastmath_on()));
}

at::Tensor kept_linear(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, const std::string& function) {
  const Activation activation = find_activation(kKeptLinear, function);
  const char* reason = kept_linear_fallback_reason(input, weight);
  if (reason == nullptr) {
    const auto cached = PackedWeightCache::instance().get(weight, in_pairs(input, weight));
    const PackedShape shape{cached.panel, weight.size(0), weight.size(1)};
    const PackedView view(kKeptLinear, cached.values, shape);
    reason = packed_product_fallback_reason(input, view, shape, bias, true);
    if (reason == nullptr) {
      return packed_product(input, cached.values, view, shape, bias, gemm_after(activation));
    }
  }
  report_fallback("kept_linear", reason);
  return kept_linear_by_torch(input, weight, bias, activation);
}

// No gradient: compiled graphs contain their own. Calls with tangents run torch's linear.
at::Tensor autograd_kept_linear(const at::Tensor& input, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias,
                                const std::string& function) {
  if (is_transformed({&input, &weight, pointer_to(bias)})) {
    report_fallback("kept_linear", kTransformed);
    return kept_linear_by_torch(input, weight, bias, find_activation(kKeptLinear, function));
  }
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&,
                               const std::optional<at::Tensor>&, const std::string&);
  static const auto op = registered_op<Signature>(kKeptLinear);
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(input, weight, bias, function);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("kept_linear(Tensor input, Tensor weight, Tensor? bias, str function) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("kept_linear", kept_linear); }

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("kept_linear", autograd_kept_linear);
}

}  // namespace cpuaccel::ops
