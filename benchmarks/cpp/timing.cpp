#include "timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace cpuaccel::bench {
namespace {

constexpr int kMinRounds = 3;
constexpr int kWarmups = 2;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Mean seconds of one call over `repeats` calls.
double time_of(const std::function<void()>& run, int64_t repeats) {
  const double start = now();
  for (int64_t i = 0; i < repeats; ++i) {
    run();
  }
  return (now() - start) / static_cast<double>(repeats);
}

// Warms up and returns how many calls last `min_sample` seconds. One call may be shorter than the
// clock's resolution, so the number of calls is doubled until together they last long enough.
int64_t repeats_of(const std::function<void()>& run, double min_sample) {
  for (int i = 0; i < kWarmups; ++i) {
    run();
  }
  int64_t repeats = 1;
  while (time_of(run, repeats) * static_cast<double>(repeats) < min_sample) {
    repeats *= 2;
  }
  return repeats;
}

// The value below which a share of `sorted` lies, interpolated between two values.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - std::floor(place);
  return sorted[below] * (1 - part) + sorted[above] * part;
}

Sample sample_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {quantile(seconds, 0.5), quantile(seconds, 0.25), quantile(seconds, 0.75),
          static_cast<int>(seconds.size())};
}

}  // namespace

std::vector<Sample> side_by_side(const std::vector<std::function<void()>>& runs,
                                 const Timing& timing) {
  std::vector<int64_t> repeats;
  for (const auto& run : runs) {
    repeats.push_back(repeats_of(run, timing.min_sample));
  }
  std::vector<std::vector<double>> seconds(runs.size());
  const double deadline = now() + timing.budget;
  for (int round = 0; round < timing.rounds; ++round) {
    if (round >= kMinRounds && now() > deadline) {
      break;
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const size_t turn = (i + static_cast<size_t>(round)) % runs.size();
      runs[turn]();
      seconds[turn].push_back(time_of(runs[turn], repeats[turn]));
    }
  }
  std::vector<Sample> samples;
  for (auto& each : seconds) {
    samples.push_back(sample_of(std::move(each)));
  }
  return samples;
}

}  // namespace cpuaccel::bench
