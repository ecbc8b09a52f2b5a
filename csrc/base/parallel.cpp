#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/team.h"

namespace cpuaccel {
namespace {

void serial(int64_t begin, int64_t end, int64_t /*grain_size*/, const RangeBody& body) {
  if (begin < end) {
    body(begin, end);
  }
}

int one() { return 1; }

std::atomic<ParallelFor> g_parallel_for{serial};
std::atomic<ThreadCount> g_threads{one};

thread_local int64_t t_splits = 0;

// A grain is the work for which it is worth to wake threads, some 20 us. Once they wake up, each
// more of them costs the barrier about kOfGrain of that: 80 ns, a cache line that moves from core
// to core. Work of n grains then takes n / threads + threads / kOfGrain, which is least for
// sqrt(kOfGrain n) threads.
int64_t grain_of_woken(int64_t count, int64_t grain_size) {
  constexpr double kOfGrain = 256;
  const double grains = static_cast<double>(count) / static_cast<double>(grain_size);
  const auto ranges = static_cast<int64_t>(std::sqrt(kOfGrain * grains));
  return std::min(grain_size, std::max<int64_t>(count / std::max<int64_t>(ranges, 1), 1));
}

}  // namespace

void set_parallel_for(ParallelFor parallel_for, ThreadCount threads) {
  g_parallel_for.store(parallel_for, std::memory_order_relaxed);
  g_threads.store(threads, std::memory_order_relaxed);
}

int parallel_threads() {
  const Team* team = Team::led();
  return team != nullptr ? team->threads() : g_threads.load(std::memory_order_relaxed)();
}

void parallel_ranges(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) {
  ++t_splits;
  if (end - begin > grain_size && grain_size > 1) {
    grain_size = grain_of_woken(end - begin, grain_size);
  }
  if (Team* team = Team::led()) {
    team->share(begin, end, grain_size, body);
  } else {
    g_parallel_for.load(std::memory_order_relaxed)(begin, end, grain_size, body);
  }
}

int64_t parallel_splits() { return t_splits; }

}  // namespace cpuaccel
