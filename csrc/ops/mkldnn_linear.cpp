// mkldnn::_linear_pointwise on Arm, which Inductor calls for linear layers with frozen weights.
//
// torch keeps the weight in a oneDNN layout that only a reference kernel reads in bfloat16 or under
// fast math, a hundred times slower than eager (pytorch #180447). cpuaccel packs the weight once
// for each tensor; nobody writes to it, because it is opaque.

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/fork.h"
#include "ops/activation.h"
#include "ops/matmul/fastmath.h"
#include "ops/override.h"
#include "ops/prepack/linear.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

#if defined(__aarch64__)

using OptionalTensor = std::optional<at::Tensor>;
using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
using Scalars = torch::List<std::optional<at::Scalar>>;

// Packed forms of opaque weights, for as long as the weights live.
class FrozenWeights {
 public:
  static FrozenWeights& instance() {
    static auto& weights = *std::make_unique<FrozenWeights>().release();
    return weights;
  }

  CachedPackedWeight get(const at::Tensor& opaque, bool pairs) {
    const std::scoped_lock lock(mutex_);
    auto found = entries_.find(opaque.unsafeGetTensorImpl());
    if (found == entries_.end() || found->second.opaque.expired()) {
      std::erase_if(entries_, [](const auto& each) { return each.second.opaque.expired(); });
      found = entries_
                  .emplace(opaque.unsafeGetTensorImpl(),
                           Entry{WeakTensor(opaque.getIntrusivePtr()), {}})
                  .first;
    }
    CachedPackedWeight& packed = found->second.packed[pairs ? 1 : 0];
    if (packed.panel != panel_in_use(pairs)) {  // packed for another ISA, or not yet
      packed = pack_for_cache(opaque, pairs);
    }
    return packed;
  }

 private:
  struct Entry {
    WeakTensor opaque;
    std::array<CachedPackedWeight, 2> packed;  // in panels, in pairs
  };

  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::params, this);
  std::unordered_map<const c10::TensorImpl*, Entry> entries_;
};

// The activation of Inductor's name; nullopt if cpuaccel does not have it.
std::optional<Activation> activation_of(std::string_view attr,
                                        std::optional<std::string_view> algorithm) {
  if (attr == "none") {
    return Activation::none;
  }
  if (attr == "swish") {
    return Activation::silu;
  }
  if (attr == "gelu") {
    return algorithm == "tanh" ? Activation::gelu_tanh : Activation::gelu;
  }
  return attr == "relu" || attr == "hardswish" ? activation_named(attr) : std::nullopt;
}

const char* linear_fallback_reason(const at::Tensor& X, const at::Tensor& W, bool has_activation) {
  if (!has_activation) {
    return "unsupported post-op";
  }
  const bool types = X.scalar_type() == W.scalar_type() &&
                     (X.scalar_type() == at::kFloat || X.scalar_type() == at::kBFloat16);
  return types && X.layout() == at::kStrided && W.is_mkldnn() && W.dim() == 2
             ? nullptr
             : "unsupported dtype or layout of an operand";
}

template <OpName kName>
at::Tensor linear_pointwise(const at::Tensor& X, const at::Tensor& W, const OptionalTensor& B,
                            std::string_view attr, Scalars scalars,
                            std::optional<std::string_view> algorithm) {
  const auto activation = activation_of(attr, algorithm);
  const char* reason = linear_fallback_reason(X, W, activation.has_value());
  if (reason == nullptr) {
    const bool pairs = packs_pairs() && (X.scalar_type() == at::kBFloat16 || fastmath_on());
    const auto cached = FrozenWeights::instance().get(W, pairs);
    const PackedShape shape{cached.panel, W.size(0), W.size(1)};
    const PackedView view(kName.text, cached.values, shape);
    reason = packed_product_fallback_reason(X, view, shape, B, true);
    if (reason == nullptr) {
      return packed_product(X, cached.values, view, shape, B, gemm_after(*activation));
    }
  }
  report_fallback(kName.text, reason);
  return call_torch_under(c10::DispatchKey::MkldnnCPU, kName.text, X, W, B, attr, scalars,
                          algorithm)
      .toTensor();
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("mkldnn::_linear_pointwise", c10::DispatchKey::MkldnnCPU, linear_pointwise)};

#endif

}  // namespace

}  // namespace cpuaccel::ops
