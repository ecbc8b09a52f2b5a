// parallel_for for kernels that do not depend on torch: calls a hook, and is serial until one is
// set. The torch layer sets it to at::parallel_for, so that torch.set_num_threads applies.
#pragma once

#include <cstdint>
#include <functional>

#include "base/api.h"

namespace cpuaccel {

using RangeBody = std::function<void(int64_t begin, int64_t end)>;
using ParallelFor = void (*)(int64_t begin, int64_t end, int64_t grain_size, const RangeBody&);
using ThreadCount = int (*)();

CPUACCEL_API void set_parallel_for(ParallelFor parallel_for, ThreadCount threads);

// Threads that parallel_for would use for enough ranges, 1 or more. Only how work is split may
// depend on it, not the results.
CPUACCEL_API int parallel_threads();

// Runs on the hook, or on the threads of a team that the calling thread leads (base/team.h).
CPUACCEL_API void parallel_ranges(int64_t begin, int64_t end, int64_t grain_size,
                                  const RangeBody& body);

// How often the calling thread has split a range.
int64_t parallel_splits();

// Calls body on disjoint ranges that cover [begin, end). They have equal lengths except for the
// last. Up to grain_size, body is called directly with one range. Beyond, there may be more than
// one range per grain_size: threads that wake up together cost little more than one of them.
template <typename Body>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const Body& body) {
  if (end - begin > grain_size) {
    parallel_ranges(begin, end, grain_size, std::cref(body));
  } else if (begin < end) {
    body(begin, end);
  }
}

}  // namespace cpuaccel
