// parallel_for for kernels that know nothing of torch: a hook, serial until somebody sets it.
// The torch layer sets it to at::parallel_for, so that torch.set_num_threads counts.
#pragma once

#include <cstdint>
#include <functional>

namespace cpuaccel {

using RangeBody = std::function<void(int64_t begin, int64_t end)>;
using ParallelFor = void (*)(int64_t begin, int64_t end, int64_t grain_size, const RangeBody&);

void set_parallel_for(ParallelFor parallel_for);

// Calls body on disjoint ranges that cover [begin, end); none but the last is shorter than
// grain_size.
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body);

}  // namespace cpuaccel
