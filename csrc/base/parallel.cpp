#include "base/parallel.h"

#include <atomic>

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

}  // namespace

void set_parallel_for(ParallelFor parallel_for, ThreadCount threads) {
  g_parallel_for.store(parallel_for, std::memory_order_relaxed);
  g_threads.store(threads, std::memory_order_relaxed);
}

int parallel_threads() { return g_threads.load(std::memory_order_relaxed)(); }

void parallel_ranges(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) {
  g_parallel_for.load(std::memory_order_relaxed)(begin, end, grain_size, body);
}

}  // namespace cpuaccel
