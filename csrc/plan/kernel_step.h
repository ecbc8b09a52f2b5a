// A plan step that calls one function, such as a cpuaccel kernel. The function's only threads are
// those of parallel_for.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "plan/build.h"

namespace cpuaccel::plan {

class KernelStep : public Step {
 public:
  using Function = std::function<void(std::span<void* const> in, std::span<void* const> out)>;

  KernelStep(std::vector<Id> from, Id to, TensorDesc desc, Function function)
      : function_(std::move(function)) {
    inputs = std::move(from);
    outputs = {to};
    output_descs = {std::move(desc)};
  }

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    function_(in, out);
  }
  std::string kernel() const override { return "cpuaccel"; }
  bool fits_team() const override { return true; }

 private:
  Function function_;
};

// Adds a step that computes `to`, with the layout `desc`, from `from`.
inline void add_kernel_step(Building& building, std::vector<Id> from, Id to, TensorDesc desc,
                            KernelStep::Function function) {
  building.add(
      std::make_unique<KernelStep>(std::move(from), to, std::move(desc), std::move(function)));
}

}  // namespace cpuaccel::plan
