// The parallel_for of cpuaccel_bench: OpenMP, as torch's is.
#pragma once

namespace cpuaccel::bench {

// From now on parallel_for distributes its ranges over `threads` threads.
void use_threads(int threads);

}  // namespace cpuaccel::bench
