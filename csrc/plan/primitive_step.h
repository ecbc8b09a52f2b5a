// A plan step that runs one oneDNN primitive, and perhaps a cpuaccel post-op on its output.
#pragma once

#include <memory>
#include <vector>

#include "base/idle.h"
#include "plan/eltwise.h"
#include "plan/step.h"

namespace cpuaccel::plan {

class PrimitiveStep : public Step {
 public:
  // `in` and `out` describe what `run` gets, in order; arguments in `bound` have their memory
  // from the start. Step::inputs may have one more than `in`: the input that is overwritten.
  struct Argument {
    int argument;
    dnnl::memory::desc desc;
    std::shared_ptr<const std::byte[]> memory = {};
    size_t first = 0;  // bytes before `desc` in the memory that `run` gets
  };
  PrimitiveStep(dnnl::primitive_desc_base desc, std::vector<Argument> in, std::vector<Argument> out,
                std::vector<Argument> bound);
  ~PrimitiveStep() override;
  PrimitiveStep(const PrimitiveStep&) = delete;
  PrimitiveStep& operator=(const PrimitiveStep&) = delete;

  // A post-op that is applied in place to the first of `out`, which has no gaps.
  Activation eltwise = Activation::none;

  void prepare() override;
  void run(std::span<void* const> in, std::span<void* const> out) const override;
  std::string kernel() const override;

 private:
  // Memory objects of one run.
  struct Context;
  std::unique_ptr<Context> acquire() const;

  dnnl::primitive_desc_base desc_;
  dnnl::primitive primitive_;
  std::vector<Argument> inputs_, outputs_, bound_;
  dnnl::memory::desc scratchpad_;
  mutable Idle<Context> idle_;
};

}  // namespace cpuaccel::plan
