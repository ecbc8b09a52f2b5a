// Times the steps of plans on demand, and names them for torch.profiler.
#pragma once

#include <ATen/record_function.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "plan/plan.h"

namespace cpuaccel::ops {

// Off by default. Costs two reads of the clock a step.
void time_steps(bool on);
bool steps_are_timed();

// Nanoseconds of a plan's last runs, a bounded number of them. Threads may add at the same time.
class StepTimes {
 public:
  // The time of each step, then the time of the whole run.
  using Run = std::vector<int64_t>;

  void add(Run run);
  void clear();
  std::vector<Run> runs() const;

 private:
  std::mutex& mutex_ = fork_safe_mutex(ForkLevel::leaf, this);
  std::deque<Run> runs_;
};

// Times one run, from construction to destruction.
class TimedRun : public plan::StepObserver {
 public:
  TimedRun(StepTimes& times, size_t steps) : times_(times), run_(steps + 1, 0) {}
  ~TimedRun() override {
    run_.back() = since(start_);
    times_.add(std::move(run_));
  }
  TimedRun(const TimedRun&) = delete;
  TimedRun& operator=(const TimedRun&) = delete;

  void begin(size_t, const plan::Step&) override { step_ = Clock::now(); }
  void end(size_t number) override { run_[number] = since(step_); }

 private:
  using Clock = std::chrono::steady_clock;
  static int64_t since(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }

  StepTimes& times_;
  StepTimes::Run run_;
  Clock::time_point start_ = Clock::now(), step_{};
};

// Names each step for torch.profiler: "cpuaccel::step.Convolution+ReLU".
class RecordedRun : public plan::StepObserver {
 public:
  void begin(size_t number, const plan::Step& step) override;
  void end(size_t number) override;

 private:
  std::optional<at::RecordFunction> record_;
};

}  // namespace cpuaccel::ops
