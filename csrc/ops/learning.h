// Learning in ops: tries other candidates beside the one that computes a call.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "base/isa.h"
#include "base/learned_choice.h"
#include "base/tuning.h"

namespace cpuaccel::ops {

// Ops with fewer multiply-adds do not learn: to look a choice up would take a part of their time.
inline constexpr double kLeastLearnedWork = 131072;

// Whether results of an op may come from a learned candidate, whose sums have another order.
inline bool may_use_learned() {
  return learning() && !at::globalContext().deterministicAlgorithms();
}

// In a parallel region, other threads would disturb the times.
inline bool may_try() { return !at::in_parallel_region(); }

// A problem under the conditions of this call.
inline LearnedProblem learned_problem(LearnedOp op, at::ScalarType type, uint8_t flags) {
  LearnedProblem problem;
  problem.op = op;
  problem.type = static_cast<uint8_t>(type);
  problem.flags = flags;
  problem.isa = static_cast<uint8_t>(best_isa());
  problem.threads = static_cast<uint16_t>(at::get_num_threads());
  return problem;
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
