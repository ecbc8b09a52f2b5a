// Which of some candidates is the fastest: they are run in turns, on the same work.
//
// A trial says `seconds`, the fastest of its runs, and `is_same`, whether its results are those of
// the first one, which is what would be taken without a race.
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

// In a model what a layer keeps was not read since its last call. So many bytes of other memory,
// read between two runs, make weights leave L2 and what translates addresses of pages.
inline constexpr int64_t kReadBetween = int64_t{16} << 20;

// How many things of `bytes` a trial takes in turns for that, at most `most`.
inline size_t copies_to_read(int64_t bytes, size_t most) {
  return bytes > 0 ? std::min(static_cast<size_t>((kReadBetween - 1) / bytes + 1), most) : most;
}

// What run() takes.
template <typename Run>
double seconds_of(const Run& run) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// As people read them: "12.3 us".
inline std::string in_microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", seconds * 1e6);
  return text;
}

// Sets the seconds of the trials of `candidates`, `trial_of` each; run(candidate) says what one run
// took. Those that are not the same are not run, and stay at infinity. About `budget` seconds, but
// two rounds at least: the second one says how much of the first was noise.
template <typename Candidates, typename TrialOf, typename Run>
void race(Candidates& candidates, const TrialOf& trial_of, double budget, const Run& run) {
  constexpr int kRounds = 5, kLeastRounds = 2;
  // What took so much longer than the fastest one in the first round is not run again, but for the
  // first one, which others have to beat.
  constexpr double kHopeless = 1.3, kNever = std::numeric_limits<double>::infinity();
  for (auto& candidate : candidates) {
    std::invoke(trial_of, candidate).seconds = kNever;
  }
  double fastest = kNever, spent = 0;
  for (int round = 0; round < kRounds && (round < kLeastRounds || spent < budget); ++round) {
    for (auto& candidate : candidates) {
      auto& trial = std::invoke(trial_of, candidate);
      const bool is_first = &candidate == &candidates.front();
      if (!trial.is_same || (round > 0 && !is_first && trial.seconds > kHopeless * fastest)) {
        continue;
      }
      const double taken = run(candidate);
      spent += taken;
      trial.seconds = std::min(trial.seconds, taken);
      fastest = std::min(fastest, trial.seconds);
    }
  }
}

// The trial to take, of at least one: another one has to win by more than noise.
template <typename Trials>
auto& winner_of(Trials& trials) {
  constexpr double kClearly = 0.97;
  auto* best = &trials.front();
  for (auto& trial : trials) {
    if (trial.is_same && trial.seconds < kClearly * trials.front().seconds &&
        trial.seconds < best->seconds) {
      best = &trial;
    }
  }
  return *best;
}

// Says in the log what the trials of `problem` took, each called name_of(trial), and which is
// taken.
template <typename Trials, typename Trial, typename NameOf>
void log_race(const std::string& problem, const Trials& trials, const Trial& taken,
              const NameOf& name_of) {
  if (!log_enabled()) {
    return;
  }
  std::string text = "timed " + problem + ": ";
  for (const auto& trial : trials) {
    text += name_of(trial) + (trial.is_same ? " " + in_microseconds(trial.seconds) : " differs");
    text += ", ";
  }
  log_decision(text + "takes " + name_of(taken));
}

}  // namespace cpuaccel
