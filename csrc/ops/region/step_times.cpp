#include "ops/region/step_times.h"

#include <atomic>
#include <string>

namespace cpuaccel::ops {
namespace {

constexpr size_t kMostRuns = 1000;

std::atomic<bool> g_timed{false};

}  // namespace

void time_steps(bool on) { g_timed.store(on, std::memory_order_relaxed); }

bool steps_are_timed() { return g_timed.load(std::memory_order_relaxed); }

void StepTimes::add(Run run) {
  const std::scoped_lock lock(mutex_);
  if (runs_.size() == kMostRuns) {
    runs_.pop_front();
  }
  runs_.push_back(std::move(run));
}

void StepTimes::clear() {
  const std::scoped_lock lock(mutex_);
  runs_.clear();
}

std::vector<StepTimes::Run> StepTimes::runs() const {
  const std::scoped_lock lock(mutex_);
  return {runs_.begin(), runs_.end()};
}

void RecordedRun::begin(size_t, const plan::Step& step) {
  record_.emplace(at::RecordScope::FUNCTION);
  if (record_->isActive()) {
    record_->before("cpuaccel::step." + step.facts.kinds);
  }
}

void RecordedRun::end(size_t) { record_.reset(); }

}  // namespace cpuaccel::ops
