// linear under autocast: the weight's cast is kept from one forward to the next. torch keeps it
// within one `with torch.autocast(...)` only, and models are served with one for each request.

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <optional>

#include "ops/lists.h"
#include "ops/torch_kernel.h"
#include "ops/weight_cache.h"

namespace cpuaccel::ops {
namespace {

// A gradient has to find its way through the cast, so training keeps torch's.
bool keeps_cast(const at::Tensor& weight) {
  return weight.scalar_type() == at::kFloat && weight.layout() == at::kStrided &&
         weight.device().is_cpu() && !(c10::GradMode::is_enabled() && weight.requires_grad()) &&
         !at::isTensorSubclassLike(weight) && at::autocast::is_autocast_cache_enabled();
}

at::Tensor cast(const at::Tensor& weight, at::ScalarType type) {
  return WeightCache::instance().get(weight, static_cast<int>(type), [type](const at::Tensor& w) {
    // What is made in inference mode could not be used outside of it.
    const c10::InferenceMode normal(false);
    const at::NoGradGuard no_grad;
    return w.to(type);
  });
}

template <OpName kName>
at::Tensor autocast_linear(const at::Tensor& input, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias) {
  if (!keeps_cast(weight)) {
    return call_torch(kName.text, input, weight, bias).toTensor();
  }
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  const auto type = at::autocast::get_autocast_dtype(at::kCPU);
  return at::linear(at::autocast::cached_cast(type, input, at::kCPU), cast(weight, type),
                    at::autocast::cached_cast(type, bias, at::kCPU));
}

constexpr std::array kOverrides{
    CPUACCEL_OVERRIDE("aten::linear", c10::DispatchKey::AutocastCPU, autocast_linear),
};

}  // namespace

std::span<const Override> autocast_overrides() { return kOverrides; }

}  // namespace cpuaccel::ops
