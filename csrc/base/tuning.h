// Tuning: times candidates on the same work, interleaved, and picks the fastest.
//
// The timing of a candidate has `seconds`, the fastest of its runs, and `is_same`, whether its
// results equal those of the first candidate, which is the default without tuning.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>

#include "base/log.h"

namespace cpuaccel {

// In a model, a layer's weights were not read since its last call. Reading this many bytes of other
// memory between two runs evicts weights from L2, and their pages from the TLB.
inline constexpr int64_t kReadBetween = int64_t{16} << 20;

// How many copies of `bytes` runs should alternate among for that, at most `most`.
inline size_t copies_to_read(int64_t bytes, size_t most) {
  return bytes > 0 ? std::min(static_cast<size_t>((kReadBetween - 1) / bytes + 1), most) : most;
}

// Seconds that run() takes.
template <typename Run>
double seconds_of(const Run& run) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Formats seconds for people: "12.3 us".
inline std::string in_microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", seconds * 1e6);
  return text;
}

// Times `candidates` and sets the `seconds` of timing_of(candidate); run(candidate) returns the
// seconds of one run. Candidates with different results are not run, and stay at infinity. Takes
// about `budget` seconds, but at least two rounds: the second one shows how noisy the first was.
// If `seconds` are those of a first run already and one of them is at least `long_run`, in which
// caches that were cold count little, these runs are the first round.
template <typename Candidates, typename TimingOf, typename Run>
void time_candidates(Candidates& candidates, const TimingOf& timing_of, double budget,
                     const Run& run, double long_run = std::numeric_limits<double>::infinity()) {
  constexpr int kRounds = 5, kLeastRounds = 2;
  // Candidates slower than the fastest by this factor in the first round are not run again, except
  // for the first candidate, which the others have to beat.
  constexpr double kHopeless = 1.3, kNever = std::numeric_limits<double>::infinity();
  double fastest = kNever, longest = 0, spent = 0;
  for (auto& candidate : candidates) {
    auto& timing = std::invoke(timing_of, candidate);
    timing.seconds = timing.is_same ? timing.seconds : kNever;
    fastest = std::min(fastest, timing.seconds);
    longest = timing.is_same ? std::max(longest, timing.seconds) : longest;
  }
  int first = 1;
  if (longest < long_run) {
    for (auto& candidate : candidates) {
      std::invoke(timing_of, candidate).seconds = kNever;
    }
    fastest = kNever;
    first = 0;
  }
  for (int round = first; round < kRounds && (round < kLeastRounds || spent < budget); ++round) {
    for (auto& candidate : candidates) {
      auto& timing = std::invoke(timing_of, candidate);
      const bool is_first = &candidate == &candidates.front();
      if (!timing.is_same || (round > 0 && !is_first && timing.seconds > kHopeless * fastest)) {
        continue;
      }
      const double taken = run(candidate);
      spent += taken;
      timing.seconds = std::min(timing.seconds, taken);
      fastest = std::min(fastest, timing.seconds);
    }
  }
}

// The fastest of at least one timing. To be chosen, it has to beat the first by more than noise.
template <typename Timings>
auto& clearly_fastest(Timings& timings) {
  constexpr double kClearly = 0.97;
  auto* best = &timings.front();
  for (auto& timing : timings) {
    if (timing.is_same && timing.seconds < kClearly * timings.front().seconds &&
        timing.seconds < best->seconds) {
      best = &timing;
    }
  }
  return *best;
}

// Logs the timings of the problem `key`, each by its name_of(timing), and which one is chosen.
template <typename Timings, typename Timing, typename NameOf>
void log_tuning(const std::string& key, const Timings& timings, const Timing& chosen,
                const NameOf& name_of) {
  if (!log_enabled()) {
    return;
  }
  std::string text = "timed " + key + ": ";
  for (const auto& timing : timings) {
    text += name_of(timing) + (timing.is_same ? " " + in_microseconds(timing.seconds) : " differs");
    text += ", ";
  }
  log_decision(text + "chosen: " + name_of(chosen));
}

}  // namespace cpuaccel
