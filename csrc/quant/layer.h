// Layer: a quantized linear or convolution layer with its weights and the kernel chosen to run it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/api.h"
#include "base/fork.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

// On CPUs without VNNI the libraries multiply with an instruction that saturates the sum of two
// products to 16 bits (quant/pair_sums.h). Calls that could saturate run on an exact cpuaccel
// kernel in both modes. With `cpuaccel_kernel` all calls run on a cpuaccel kernel if there is one
// for the layer: their sources need no check, and all of them round alike.
enum class WithoutVnni : uint8_t { by_list, cpuaccel_kernel };

struct LayerOptions {
  WithoutVnni without_vnni = WithoutVnni::by_list;
  // Whether the caller has another kernel that computes the layer correctly. If no provider takes
  // it, create() then returns null, otherwise a layer that needs_float().
  bool has_fallback = true;
};

// Whether no library sums pairs of products in 16 bits for layers of this shape on this CPU.
CPUACCEL_API bool libraries_are_exact(const LayerShape& shape);

// The provider is chosen at the first call, when the size of its images is known. Until then the
// layer keeps the plain int8 weights, afterwards only the packed weights.
class CPUACCEL_API Layer {
 public:
  // Returns null and sets `reason` if no provider takes the layer.
  static std::unique_ptr<Layer> create(LayerWeight weight, std::string& reason,
                                       const LayerOptions& options);

  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Runs `call` and counts it under `op`. Returns false and does nothing if no provider can run it.
  bool run(Op op, const QuantCall& call);

  // run() for `N` images or rows that are contiguous in memory, in slices whose sizes stay below
  // 2^31, the range of the libraries' int offsets. call.N is ignored. `title` names the op in the
  // error for a single image or row that is too large.
  bool run_slices(const char* title, Op op, QuantCall call, int64_t N);

  // The values of the weights. The memory may be the layer's own: it is only read.
  Int8Weights unpack() const;

  // Whether results can be rounded to int32 before they are clamped to bytes, as kernels do.
  // Depends on scales, bias and post-op only.
  bool results_fit_int32(const QuantCall& call) const;

  // The reason why no int8 kernel can run any call of the layer, so that it runs in float; else
  // null.
  const char* needs_float() const { return in_float_; }

  const LayerShape& shape() const { return weight_.shape; }
  // Whether all zero points of the weights are 0.
  bool symmetric() const { return weight_.symmetric(); }
  // The op that plain calls and prepacks are counted under.
  Op op() const;

  // "onednn jit:..." and the like; empty before the first call.
  std::string kernel_name() const;
  // Whether the last call used no threads other than parallel_for's; false before the first call.
  bool fits_team() const;

  // Facts for cpuaccel.explain() as a JSON object.
  std::string describe() const;

 private:
  explicit Layer(LayerWeight weight) : weight_(std::move(weight)) {}
  // Packs the weights for a provider that can run `call`: at the first call, or after `failed`
  // returned the reason `why`. Null if there is none.
  std::shared_ptr<Kernel> pack(const std::shared_ptr<Kernel>& failed, const QuantCall& call,
                               const char* why);
  // The kernel that is exact for every src. It is packed when first needed, beside the chosen
  // kernel. Null if there is none.
  std::shared_ptr<Kernel> exact_kernel();
  // Returns null if it ran, else the kernel's reason.
  const char* run_kernel(Op op, const QuantCall& call, Kernel& kernel);
  // Runs the call on the exact kernel, which replaces `kernel` after enough such calls in a row.
  bool run_exactly(Op op, const QuantCall& call, const std::shared_ptr<Kernel>& kernel);
  // Runs the call with an f32 dst, whose values are clamped before they are rounded.
  bool run_through_floats(Op op, const QuantCall& call, const std::shared_ptr<Kernel>& kernel);

  LayerWeight weight_;
  std::optional<Provider> forced_;
  bool only_forced_ = false;
  const char* in_float_ = nullptr;  // needs_float()
  double largest_real_ = 0.0;
  std::atomic<std::shared_ptr<Kernel>> kernel_, exact_;
  std::atomic<bool> no_exact_{false};
  std::atomic<int> calls_above_{0};  // consecutive calls that ran on exact_
  std::atomic<int64_t> runs_{0};
  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::layer, this);  // guards all below, and packing
  Int8Weights plain_;                                            // until the first call
  std::string reason_ = "not chosen yet: the size of the first call's images decides";
};

}  // namespace cpuaccel::quant
