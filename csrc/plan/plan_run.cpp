#include <algorithm>
#include <iterator>
#include <vector>

#include "base/parallel.h"
#include "base/team.h"
#include "plan/plan.h"

namespace cpuaccel::plan {

void Plan::run(std::span<void* const> inputs, std::span<void* const> constants,
               std::span<void* const> outputs, std::byte* arena, StepObserver* observer) const {
  auto pointer = [&](const Slot& slot) -> void* {
    switch (slot.place) {
      case Place::input:
        return static_cast<std::byte*>(inputs[slot.at]) + slot.offset;
      case Place::constant:
        return static_cast<std::byte*>(constants[slot.at]) + slot.offset;
      case Place::output:
        return static_cast<std::byte*>(outputs[slot.at]) + slot.offset;
      default:
        return arena + slot.at + slot.offset;
    }
  };
  std::vector<void*> in, out;
  auto run_step = [&](size_t number) {
    const auto& placed = steps_[number];
    in.clear();
    out.clear();
    std::transform(placed.inputs.begin(), placed.inputs.end(), std::back_inserter(in), pointer);
    std::transform(placed.outputs.begin(), placed.outputs.end(), std::back_inserter(out), pointer);
    if (observer != nullptr) {
      observer->begin(number, *placed.step);
    }
    placed.step->run(in, out);
    if (observer != nullptr) {
      observer->end(number);
    }
  };
  for (size_t number = 0; number < steps_.size();) {
    const size_t end = teams_.end_of(number);
    if (end > number + 1) {
      in_team([&] {
        for (; number < end; ++number) {
          run_step(number);
        }
      });
      continue;
    }
    const int64_t splits = parallel_splits();
    run_step(number);
    teams_.learn(number, *steps_[number].step, parallel_splits() > splits);
    ++number;
  }
}

}  // namespace cpuaccel::plan
