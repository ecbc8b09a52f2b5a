#include "ops/roofline.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "base/fork.h"
#include "base/tuning.h"
#include "kernels/peaks/peaks.h"

namespace cpuaccel::ops {
namespace {

// Multiply-adds of floats in a second, on all threads.
double measured_rate(int threads) {
  constexpr int kRounds = 8;
  kernels::Peaks peaks;
  for (auto& run : kernels::operations_runs(threads)) {
    if (run.rate == kernels::Rate::fp32) {
      double seconds = seconds_of(run.run);
      for (int round = 1; round < kRounds; ++round) {
        seconds = std::min(seconds, seconds_of(run.run));
      }
      run.record(peaks, seconds);
    }
  }
  return peaks.operations(kernels::Rate::fp32, best_isa());
}

struct Rates {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  std::map<int, double> by_threads;
};

// Never destroyed: ops run while the process exits.
Rates& rates() {
  static auto& instance = *std::make_unique<Rates>().release();
  return instance;
}

}  // namespace

double least_seconds_of_floats(double multiply_adds) {
  const int threads = at::get_num_threads();
  auto& known = rates();
  double rate = -1;
  {
    const std::scoped_lock lock(known.mutex);
    if (const auto found = known.by_threads.find(threads); found != known.by_threads.end()) {
      rate = found->second;
    }
  }
  if (rate < 0) {
    rate = measured_rate(threads);
    const std::scoped_lock lock(known.mutex);
    known.by_threads[threads] = rate;
  }
  return rate > 0 ? multiply_adds / rate : 0.0;
}

}  // namespace cpuaccel::ops
