#include "plan/sliced_step.h"

#include <utility>

#include "base/parallel.h"
#include "dnnl/one_thread.h"

namespace cpuaccel::plan {

SlicedStep::SlicedStep(std::vector<std::unique_ptr<PrimitiveStep>> slices)
    : slices_(std::move(slices)) {}

void SlicedStep::prepare() {
  const dnnl_layer::OneThread one;
  for (const auto& slice : slices_) {
    slice->prepare();
  }
}

void SlicedStep::run(std::span<void* const> in, std::span<void* const> out) const {
  parallel_for(0, static_cast<int64_t>(slices_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      slices_[static_cast<size_t>(i)]->run(in, out);
    }
  });
}

std::string SlicedStep::kernel() const {
  return slices_.front()->kernel() + " in " + std::to_string(slices_.size()) + " slices";
}

}  // namespace cpuaccel::plan
