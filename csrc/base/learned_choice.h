// Learned choices: which of several kernels computes an op fastest on a CPU that nobody measured.
//
// An op is computed by a suggested candidate. In some of its calls another candidate computes the
// same beside it, and both are timed. Probes take a share of the CPU time of the process, 1 % by
// default. A candidate that was clearly faster computes the op from then on, and the results, by
// problem, are kept between processes with those of the tuning cache.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/api.h"

namespace cpuaccel {

enum class LearnedOp : uint8_t { product, convolution, attention };

// The number of a size in steps of about half an octave: sizes with the same number share choices.
// It is the size itself up to 4.
CPUACCEL_API uint8_t size_step(int64_t size);

// What decides which candidate is the fastest.
struct LearnedProblem {
  static constexpr size_t kSizes = 10;
  LearnedOp op = LearnedOp::product;
  uint8_t type = 0;  // that of the elements, as the op numbers it
  uint8_t flags = 0;
  uint8_t isa = 0;  // best_isa()
  uint16_t threads = 1;
  std::array<uint8_t, kSizes> sizes{};  // size_step() of each, 0: there is none

  bool operator==(const LearnedProblem&) const = default;

  // "learned product 0 1 17 19 19 t2 i4".
  std::string key() const;
};

// The choice for one problem. Thread-safe.
class CPUACCEL_API LearnedChoice {
 public:
  // `candidates`: numbers that the op gives them, from 0 on; the first is the suggested one.
  LearnedChoice(const LearnedProblem& problem, std::span<const int8_t> candidates,
                std::optional<int> chosen);

  // The chosen candidate; -1 while it is being learned.
  int chosen() const { return chosen_.load(std::memory_order_relaxed); }

  struct Probe {
    int candidate;
    double call_seconds;  // of the last call by the suggested candidate, for each multiply-add
    double cost;          // expected CPU time, which the budget gave
  };

  // A candidate to try in this call, if there is one and the budget has time for it.
  std::optional<Probe> next_probe();

  // The probe took `seconds` for `work` multiply-adds. Calls of one problem differ in work.
  void add_probe(const Probe& probe, double seconds, double work);
  // The probe failed: its candidate is tried no more.
  void drop(const Probe& probe);

  // A call by the suggested candidate. It is chosen without probes if it took no more than
  // 1 / 0.93 of `least_seconds`, a lower bound for every candidate (0: not known).
  void add_call(double seconds, double work, double least_seconds = 0.0);

 private:
  using Clock = std::chrono::steady_clock;
  struct Timing {
    int8_t candidate;
    int rounds = 0;
    bool dropped = false;
    // Of the fastest probe, for each multiply-add.
    double seconds = 0;
  };
  Timing* timing_of(int candidate);
  // Both are called under the lock. choose_if_ready() chooses if every candidate was tried often
  // enough; they return what to log.
  std::string choose_if_ready();
  std::string choose(int candidate);

  const LearnedProblem problem_;
  std::vector<Timing> timings_;
  std::atomic<int> chosen_{-1};
  // The last call by the suggested candidate; less than 0: none since the last probe.
  double call_seconds_ = -1, call_work_ = 1;
  int calls_ = 0;
  Clock::time_point next_probe_{};
};

// The choice for `problem`. Null while learning is off, and for new problems when the table is
// full. Lives as long as the process.
CPUACCEL_API LearnedChoice* learned_choice(const LearnedProblem& problem,
                                           std::span<const int8_t> candidates);

// On by default. `share`: the part of the process's CPU time that probes may take.
CPUACCEL_API void set_learning(bool on);
CPUACCEL_API bool learning();
CPUACCEL_API void set_learning_share(double share);

struct LearningStats {
  int64_t chosen = 0, open = 0;  // problems
  int64_t probes = 0;
  double probe_seconds = 0;  // CPU time
};
CPUACCEL_API LearningStats learning_stats();

// Chosen candidates by key. set_learned_results() replaces those that later problems start from;
// clear_learned_choices() also forgets the problems met so far.
CPUACCEL_API std::map<std::string, int> learned_results();
CPUACCEL_API void set_learned_results(std::map<std::string, int> results);
CPUACCEL_API void clear_learned_choices();

}  // namespace cpuaccel
