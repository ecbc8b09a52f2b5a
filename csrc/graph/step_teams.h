// Which steps in turn get threads that are woken once for all of them (base/team.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/step.h"

namespace cpuaccel::graph {

// Safe to use from several threads at once.
class StepTeams {
 public:
  explicit StepTeams(size_t steps) : known_(steps) {}

  // Step `number` ran alone, and parallel_for split something up in it, or did not.
  void learn(size_t number, const Step& step, bool split);

  // The end of the steps from `first` on that one team runs: as many as are known to fit one, of
  // which the first and the last split something up. No more than first + 1 where that is no team.
  size_t end_of(size_t first) const;

 private:
  enum Known : uint8_t { nothing, serial, splits };  // serial and splits: it fits a team
  std::vector<std::atomic<uint8_t>> known_;
};

}  // namespace cpuaccel::graph
