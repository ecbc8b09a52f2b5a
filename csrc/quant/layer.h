// A quantised layer of ours: its weights, the kernel that has packed them, and how it is run.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/fork.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

// Without VNNI the libraries multiply by an instruction that limits the sum of two products to 16
// bits (quant/pair_sums.h). Calls that could leave these run on an exact kernel of our own either
// way; `own_kernel` has all calls do so where we have a kernel for the layer, which spares them the
// look at their sources and rounds alike in all of them.
enum class WithoutVnni : uint8_t { by_list, own_kernel };

// Which library runs it is decided at its first call, when the size of its images is known; until
// then the plain int8 weights are kept, afterwards only the packed ones.
class Layer {
 public:
  // Null, with the reason, if no provider takes the layer.
  static std::unique_ptr<Layer> create(LayerWeight weight, std::string& reason,
                                       WithoutVnni without_vnni = WithoutVnni::by_list);

  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Runs `call` and counts it under `op`. False, with nothing done, if no provider can run it.
  bool run(Op op, const QuantCall& call);

  // The same of `N` images or rows that lie one behind the other, in slices whose sizes stay below
  // 2^31, the range of the libraries' int offsets; call.N does not count. `title` names the op in
  // the error that a single image or row is too large.
  bool run_slices(const char* title, Op op, QuantCall call, int64_t N);

  // Weight as torch had it (same values, same quantiser) and bias.
  std::tuple<at::Tensor, std::optional<at::Tensor>> unpack() const;

  // Whether results can be rounded to int32 before they are limited to bytes, as kernels do it; by
  // scales, bias and post-op alone.
  bool results_fit_int32(const QuantCall& call) const;

  // Why no kernel of bytes runs any call of the layer, and float has to; null where some can.
  const char* needs_float() const { return in_float_; }
  // Whether torch's engine is right about these weights, whatever the source.
  bool torch_takes() const;

  const LayerShape& shape() const { return weight_.shape; }
  // Whether its weights' zero points are 0.
  bool symmetric() const { return weight_.symmetric(); }
  // The op that plain calls and prepacks are counted under.
  Op op() const;
  const std::optional<at::Tensor>& bias() const { return weight_.bias; }

  // "onednn jit:..." and the like; empty before the first call.
  std::string kernel_name() const;
  // Whether parallel_for alone splits up what the last call did; false before the first.
  bool fits_team() const;

  // Facts for cpuaccel.explain() as a JSON object.
  std::string describe() const;

 private:
  explicit Layer(LayerWeight weight) : weight_(std::move(weight)) {}
  static bool torch_takes(const LayerWeight& weight);
  // Packs for a provider that can run `call`, at the first call or because `refusing` can't (`why`
  // says what it said). Null if there is none.
  std::shared_ptr<Kernel> pack(const std::shared_ptr<Kernel>& refusing, const QuantCall& call,
                               const char* why);
  // The kernel that is exact for all sources, packed when it is first needed, beside the one of the
  // list. Null if there is none.
  std::shared_ptr<Kernel> exact_kernel();
  // Null if it ran, else the kernel's reason.
  const char* run_kernel(Op op, const QuantCall& call, Kernel& kernel);
  // By the exact kernel, which stays alone where all calls need it.
  bool run_exactly(Op op, const QuantCall& call, const std::shared_ptr<Kernel>& kernel);
  // By way of real numbers, which are limited before they are rounded.
  bool run_through_floats(Op op, const QuantCall& call, const std::shared_ptr<Kernel>& kernel);

  LayerWeight weight_;
  std::optional<Provider> forced_;
  bool only_forced_ = false;
  const char* in_float_ = nullptr;  // needs_float()
  double largest_real_ = 0.0;
  std::atomic<std::shared_ptr<Kernel>> kernel_, exact_;
  std::atomic<bool> no_exact_{false};
  std::atomic<int> calls_above_{0};  // in a row that ran on exact_
  std::atomic<int64_t> runs_{0};
  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::layer, this);  // guards what follows, and packing
  at::Tensor plain_;                                             // int8, until the first call
  std::string reason_ = "chosen at the first call, by the size of its images";
};

}  // namespace cpuaccel::quant
