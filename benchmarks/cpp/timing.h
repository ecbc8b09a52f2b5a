// Times alternatives side by side: in one process, in interleaved rounds.
#pragma once

#include <functional>
#include <vector>

namespace cpuaccel::bench {

// Seconds of one call, over the rounds.
struct Sample {
  double median = 0;
  double first_quartile = 0;
  double third_quartile = 0;
  int rounds = 0;
};

struct Timing {
  int rounds = 15;           // at most
  double budget = 2.0;       // seconds; then no further round starts, but three always run
  double min_sample = 5e-4;  // seconds; a time is the mean of as many calls
};

// Times `runs` against each other. A round takes each in turn, after one untimed call that brings
// its own data back into the caches. Each round starts with another run.
std::vector<Sample> side_by_side(const std::vector<std::function<void()>>& runs,
                                 const Timing& timing);

}  // namespace cpuaccel::bench
