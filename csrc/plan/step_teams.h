// Finds consecutive plan steps that run in one team: threads that are woken once for all of them
// (base/team.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/step.h"

namespace cpuaccel::plan {

// Safe to use from several threads at once.
class StepTeams {
 public:
  explicit StepTeams(size_t steps) : known_(steps) {}

  // Records that step `number` ran outside of a team, and whether parallel_for split up work in it.
  void learn(size_t number, const Step& step, bool split);

  // The end of the steps from `first` on that one team runs. All of these are known to fit a team,
  // and the first and the last of them split up work. At most first + 1 if there is no such team.
  size_t end_of(size_t first) const;

 private:
  enum Known : uint8_t { nothing, serial, splits };  // serial, splits: it fits a team
  std::vector<std::atomic<uint8_t>> known_;
};

}  // namespace cpuaccel::plan
