// Learning in ops: tries other candidates beside the one that computes a call.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <span>

#include "base/isa.h"
#include "base/learned_choice.h"
#include "base/tuning.h"

namespace cpuaccel::ops {

// Ops with fewer multiply-adds do not learn: to look a choice up would take a part of their time.
inline constexpr double kLeastLearnedWork = 131072;

// What computes a call.
struct Learned {
  int candidate;
  LearnedChoice* open = nullptr;  // calls still learn whether another candidate is faster
};

// The candidate for a problem under the conditions of this call; `candidates`: the suggested one,
// then the others. `work`: multiply-adds.
inline Learned learned(LearnedOp op, at::ScalarType type, int flags,
                       std::initializer_list<int64_t> sizes, double work,
                       std::span<const int8_t> candidates) {
  const int suggested = candidates.front();
  // Sums of learned candidates have another order.
  if (work < kLeastLearnedWork || !learning() || at::globalContext().deterministicAlgorithms()) {
    return {suggested};
  }
  LearnedProblem problem;
  problem.op = op;
  problem.type = static_cast<uint8_t>(type);
  problem.flags = static_cast<uint8_t>(flags);
  problem.isa = static_cast<uint8_t>(best_isa());
  problem.threads = static_cast<uint16_t>(at::get_num_threads());
  std::ranges::transform(sizes, problem.sizes.begin(), size_step);
  LearnedChoice* const choice = learned_choice(problem, candidates);
  if (choice == nullptr) {
    return {suggested};
  }
  if (const int chosen = choice->chosen(); chosen >= 0) {
    return {chosen};
  }
  // In a parallel region, other threads would disturb the times.
  return {suggested, at::in_parallel_region() ? nullptr : choice};
}

// run(candidate, is_probe) computes the op. Returns the result of the suggested candidate, and may
// try another one before, whose result is discarded. `least_seconds`: see
// LearnedChoice::add_call().
template <typename Run>
auto learn(LearnedChoice& choice, int suggested, double work, double least_seconds,
           const Run& run) {
  if (const auto probe = choice.next_probe()) {
    try {
      choice.add_probe(*probe, seconds_of([&] { static_cast<void>(run(probe->candidate, true)); }),
                       work);
    } catch (const std::exception&) {
      choice.drop(*probe);  // not supported, or no memory; a real error comes from the call itself
    }
  }
  decltype(run(suggested, false)) result;
  const double seconds = seconds_of([&] { result = run(suggested, false); });
  choice.add_call(seconds, work, least_seconds);
  return result;
}

}  // namespace cpuaccel::ops
