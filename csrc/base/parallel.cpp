#include "base/parallel.h"

#include <atomic>

namespace cpuaccel {
namespace {

void serial(int64_t begin, int64_t end, int64_t /*grain_size*/, const RangeBody& body) {
  if (begin < end) {
    body(begin, end);
  }
}

std::atomic<ParallelFor> g_parallel_for{serial};

}  // namespace

void set_parallel_for(ParallelFor parallel_for) {
  g_parallel_for.store(parallel_for, std::memory_order_relaxed);
}

void parallel_ranges(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) {
  g_parallel_for.load(std::memory_order_relaxed)(begin, end, grain_size, body);
}

}  // namespace cpuaccel
