// aten::linear under autocast. torch casts the weight again in each `with torch.autocast(...)`, and
// servers use one for each request: hundreds of megabytes a forward. If cpuaccel's kernel rounds
// operands while packing, nothing is cast; otherwise the cast weight is cached.

#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include <optional>

#include "base/counters.h"
#include "ops/matmul/fastmath.h"
#include "ops/matmul/run.h"
#include "ops/override.h"
#include "ops/tensor_cache.h"
#include "ops/torch_compat/modes.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using Bias = std::optional<at::Tensor>;

bool dense_cpu(const at::Tensor& x) {
  return x.layout() == at::kStrided && x.device().is_cpu() && !at::isTensorSubclassLike(x);
}

bool recorded(const at::Tensor& x) {
  return (c10::GradMode::is_enabled() && x.requires_grad()) || has_tangent(x);
}

// Training keeps torch's cast, because the gradient flows through it. Casts within torch.func
// transforms are of no use after them.
bool caches_cast(const at::Tensor& weight) {
  return weight.scalar_type() == at::kFloat && dense_cpu(weight) && !recorded(weight) &&
         !in_a_transform() && at::autocast::is_autocast_cache_enabled();
}

// Whether no dispatch mode or tracer is active, which would miss the ops that linear consists of.
bool unobserved() {
  return !c10::impl::TorchDispatchModeTLS::any_modes_set() &&
         !c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Tracer);
}

bool operand(const at::Tensor& x) {
  return dense_cpu(x) && !x.is_neg() && !recorded(x) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Linear in BF16 arithmetic on uncast operands: the kernel rounds them as the casts would.
std::optional<at::Tensor> rounding_linear(const at::Tensor& input, const at::Tensor& weight,
                                          const Bias& bias) {
  const bool biased = bias.has_value() && bias->defined();
  if (!rounds_while_packing() || !unobserved() || !operand(input) || !operand(weight) ||
      (biased && !operand(*bias)) || input.dim() < 1 || weight.dim() != 2 ||
      input.size(-1) != weight.size(1) || input.numel() == 0 || weight.numel() == 0 ||
      (biased && (bias->dim() != 1 || bias->size(0) != weight.size(0)))) {
    return std::nullopt;
  }
  const auto src = input.reshape({-1, input.size(-1)});
  MatmulCall call;
  call.type = at::kBFloat16;
  call.rounds = true;
  call.M = src.size(0);
  call.K = src.size(1);
  call.N = weight.size(0);
  set_operands(call, src, weight.t());
  const auto rounded_bias = biased ? bias->to(at::kBFloat16).contiguous() : at::Tensor();
  call.bias = biased ? rounded_bias.const_data_ptr() : nullptr;
  auto sizes = input.sizes().vec();
  sizes.back() = call.N;
  auto out = at::detail::empty_cpu(sizes, at::kBFloat16);
  call.dst_strides = {call.M * call.N, call.N, 1};
  call.dst = out.mutable_data_ptr();
  if (run_cpuaccel_matmul(call) != nullptr) {
    return std::nullopt;
  }
  calls().add(biased ? Op::addmm : Op::mm, Provider::cpuaccel);
  return out;
}

// Rows longer than a block of the kernel that come from memory are rounded piece by piece; few
// outputs do not make up for that. By CPU time on Zen 4: 0.7 to 1.0 times as fast as torch with 8
// to 64 outputs, 0.98 to 1.03 with more; with shorter rows, or less memory, 1.0 to 1.7.
bool casts_are_faster(const at::Tensor& input, const at::Tensor& weight) {
  constexpr int64_t kBlock = 512, kFewest = 8, kMost = 64, kFromMemory = 1 << 20;
  if (weight.dim() != 2) {
    return false;
  }
  const at::IntArrayRef sizes = weight.sizes();
  return sizes[1] > kBlock && sizes[0] >= kFewest && sizes[0] <= kMost &&
         input.numel() >= kFromMemory;
}

template <OpName kName>
at::Tensor autocast_linear(const at::Tensor& input, const at::Tensor& weight, const Bias& bias) {
  const auto type = at::autocast::get_autocast_dtype(at::kCPU);
  if (type == at::kBFloat16 && !casts_are_faster(input, weight)) {
    if (auto result = rounding_linear(input, weight, bias)) {
      return std::move(*result);
    }
  }
  if (!caches_cast(weight)) {
    return call_torch(kName.text, input, weight, bias).toTensor();
  }
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  return at::linear(at::autocast::cached_cast(type, input, at::kCPU), cached_cast_of(weight, type),
                    at::autocast::cached_cast(type, bias, at::kCPU));
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::linear", c10::DispatchKey::AutocastCPU, autocast_linear),
};

}  // namespace

}  // namespace cpuaccel::ops
