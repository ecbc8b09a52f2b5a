#include "plan/plan.h"

#include <exception>
#include <utility>

#include "plan/plan_builder.h"

namespace cpuaccel::plan {

Plan::Plan(const Region& region, std::span<const TensorDesc> inputs,
           std::span<const TensorDesc> constants, std::span<const void* const> constant_data,
           PackedWeights& packed, bool fast_math, size_t written) {
  Builder builder(region, inputs, constants, constant_data, packed, fast_math, written);
  for (size_t i = 0; i < region.partitions.size(); ++i) {
    builder.add_next();
  }
  builder.finish(*this);
  teams_ = StepTeams(steps_.size());
}

std::vector<std::string> uncompilable_reasons(const Region& region) {
  auto traced = [&](const std::vector<Id>& ids) {
    std::vector<TensorDesc> result;
    for (const Id id : ids) {
      result.push_back(dense(region.value(id).sizes, MemoryFormat::contiguous));
    }
    return result;
  };
  const std::vector<const void*> nowhere(region.all_constants().size(), nullptr);
  PackedWeights packed;
  Plan::Builder builder(region, traced(region.inputs), traced(region.all_constants()), nowhere,
                        packed, false, 0);
  std::vector<std::string> result;
  for (size_t i = 0; i < region.partitions.size(); ++i) {
    std::string reason;
    try {
      builder.add_next();
      if (!builder.has_traced_sizes(i)) {
        reason = "its results would have other sizes than torch's";
        builder.pretend(i);
      }
    } catch (const std::exception& error) {
      reason = error.what();
      builder.pretend_next();
    }
    result.push_back(std::move(reason));
  }
  return result;
}

}  // namespace cpuaccel::plan
