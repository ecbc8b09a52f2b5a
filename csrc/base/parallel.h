// parallel_for for kernels that know nothing of torch: a hook, serial until somebody sets it.
// The torch layer sets it to at::parallel_for, so that torch.set_num_threads counts.
#pragma once

#include <cstdint>
#include <functional>

namespace cpuaccel {

using RangeBody = std::function<void(int64_t begin, int64_t end)>;
using ParallelFor = void (*)(int64_t begin, int64_t end, int64_t grain_size, const RangeBody&);
using ThreadCount = int (*)();

void set_parallel_for(ParallelFor parallel_for, ThreadCount threads);

// Threads that parallel_for would use for enough ranges, 1 or more. What is computed must not
// depend on it, only how it is cut into pieces.
int parallel_threads();

// Through the hook, or the threads of a team that the calling thread leads (base/team.h).
void parallel_ranges(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body);

// How often the calling thread has split up a range.
int64_t parallel_splits();

// Calls body on disjoint ranges that cover [begin, end), as long as each other but for the last and
// as many as there are grain_size in it at most. What is no longer is one range, without a detour.
template <typename Body>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const Body& body) {
  if (end - begin > grain_size) {
    parallel_ranges(begin, end, grain_size, std::cref(body));
  } else if (begin < end) {
    body(begin, end);
  }
}

}  // namespace cpuaccel
