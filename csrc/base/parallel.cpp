#include "base/parallel.h"

#include <atomic>

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
  if (Team* team = Team::led()) {
    team->share(begin, end, grain_size, body);
  } else {
    g_parallel_for.load(std::memory_order_relaxed)(begin, end, grain_size, body);
  }
}

int64_t parallel_splits() { return t_splits; }

}  // namespace cpuaccel
