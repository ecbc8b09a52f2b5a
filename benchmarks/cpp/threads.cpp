#include "threads.h"

#include <algorithm>
#include <atomic>

#include "base/parallel.h"

namespace cpuaccel::bench {
namespace {

std::atomic<int> g_threads{1};

void spread(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) {
  const int64_t count = end - begin;
  if (count <= 0) {
    return;
  }
  const int64_t grain = std::max<int64_t>(grain_size, 1);
  const int64_t most = std::min<int64_t>(g_threads.load(), (count + grain - 1) / grain);
  const int64_t size = std::max(grain, (count + most - 1) / most);
  const int64_t parts = (count + size - 1) / size;
  if (parts == 1) {
    body(begin, end);
    return;
  }
#pragma omp parallel for num_threads(static_cast<int>(parts)) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = begin + part * size;
    body(first, std::min(end, first + size));
  }
}

}  // namespace

void use_threads(int threads) {
  g_threads.store(threads);
  set_parallel_for(spread, [] { return g_threads.load(); });
}

}  // namespace cpuaccel::bench
