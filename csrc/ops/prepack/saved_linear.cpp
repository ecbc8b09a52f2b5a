// cpuaccel::saved_linear: linear with a packed weight loaded from a file, as bytes.
//
//   result[..., n] = f(bias[n] + sum over k of input[..., k] * weight[n, k])
//
// bytes: the weight, out_features x in_features, in the format of weight_bytes.h. The first use
// checks them, and repacks them if another CPU packed them (packed_weight_cache.h, which also looks
// for changes). Result and bias have input's type, which may be bfloat16 for a float32 weight. f is
// "" (nothing) or a name of base/activations.inc. Other types and sizes fall back to torch's ops.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linear.h>
#include <torch/library.h>

#include <optional>
#include <string>

#include "base/plugin.h"
#include "ops/activation.h"
#include "ops/packed_weight_cache.h"
#include "ops/prepack/linear.h"
#include "ops/prepack/weight_bytes.h"
#include "ops/reasons.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kSavedLinear = "cpuaccel::saved_linear";

const char* saved_linear_fallback_reason(const at::Tensor& input, const WeightHeader& header) {
  if (!plugin_on()) {
    return reasons::kOff;
  }
  const auto type = type_of(header);
  if (type != input.scalar_type() &&
      !(type == at::kFloat && input.scalar_type() == at::kBFloat16)) {
    return "input and packed weight differ in dtype";
  }
  return header.out_features == 0 || header.in_features == 0 ? "weight is empty" : nullptr;
}

at::Tensor saved_linear_by_torch(const at::Tensor& input, const at::Tensor& bytes,
                                 const std::optional<at::Tensor>& bias, Activation activation) {
  // Through the dispatcher: within a transform, results of ops have memory only inside of kernels.
  static const auto unpack =
      registered_op<at::Tensor(const at::Tensor&)>("cpuaccel::weight_from_bytes");
  const at::Tensor result = at::linear(input, unpack.call(bytes).to(input.scalar_type()), bias);
  return activate(activation, result);
}

at::Tensor saved_linear(const at::Tensor& input, const at::Tensor& bytes, int64_t out_features,
                        int64_t in_features, const std::optional<at::Tensor>& bias,
                        const std::string& function) {
  const Activation activation = find_activation(kSavedLinear, function);
  const auto header = read_weight_header(kSavedLinear, bytes);
  TORCH_CHECK(header.out_features == out_features && header.in_features == in_features,
              kSavedLinear, ": expected bytes of a weight of ", out_features, " x ", in_features,
              ", but got ", header.out_features, " x ", header.in_features);
  const char* reason = saved_linear_fallback_reason(input, header);
  if (reason == nullptr) {
    const auto cached = PackedWeightCache::instance().get(
        bytes, WeightForm::bytes, [&] { return open_weight(kSavedLinear, bytes, header); });
    const at::Tensor values = cached.values.defined() ? cached.values : panels_of(bytes, header);
    const PackedShape shape{cached.panel, out_features, in_features};
    const PackedView view(kSavedLinear, values, shape);
    reason = packed_product_fallback_reason(input, view, shape, bias, true);
    if (reason == nullptr) {
      return packed_product(input, values, view, shape, bias, gemm_after(activation));
    }
  }
  report_fallback("saved_linear", reason);
  return saved_linear_by_torch(input, bytes, bias, activation);
}

// The weight has no derivative. Calls with tangents of input or bias run torch's linear.
at::Tensor autograd_saved_linear(const at::Tensor& input, const at::Tensor& bytes,
                                 int64_t out_features, int64_t in_features,
                                 const std::optional<at::Tensor>& bias,
                                 const std::string& function) {
  if (is_transformed({&input, pointer_to(bias)})) {
    report_fallback("saved_linear", kTransformed);
    return saved_linear_by_torch(input, bytes, bias, find_activation(kSavedLinear, function));
  }
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, int64_t, int64_t,
                               const std::optional<at::Tensor>&, const std::string&);
  static const auto op = registered_op<Signature>(kSavedLinear);
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(input, bytes, out_features, in_features, bias, function);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "saved_linear(Tensor input, Tensor bytes, int out_features, int in_features, Tensor? bias, "
      "str function) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("saved_linear", saved_linear); }

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("saved_linear", autograd_saved_linear);
}

}  // namespace cpuaccel::ops
