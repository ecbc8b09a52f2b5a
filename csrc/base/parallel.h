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

// Through the hook.
void parallel_ranges(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body);

// Calls body on disjoint ranges that cover [begin, end); none but the last is shorter than
// grain_size. What is no longer than that is one range, without a detour.
template <typename Body>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const Body& body) {
  if (end - begin > grain_size) {
    parallel_ranges(begin, end, grain_size, std::cref(body));
  } else if (begin < end) {
    body(begin, end);
  }
}

}  // namespace cpuaccel
