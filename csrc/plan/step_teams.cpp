#include "plan/step_teams.h"

namespace cpuaccel::plan {

void StepTeams::learn(size_t number, const Step& step, bool split) {
  const Known known = !step.fits_team() ? nothing : split ? splits : serial;
  known_[number].store(known, std::memory_order_relaxed);
}

size_t StepTeams::end_of(size_t first) const {
  size_t end = first;
  for (size_t number = first; number < known_.size(); ++number) {
    const auto known = known_[number].load(std::memory_order_relaxed);
    if (known == nothing || (known == serial && number == first)) {
      break;
    }
    end = known == splits ? number + 1 : end;
  }
  return end;
}

}  // namespace cpuaccel::plan
