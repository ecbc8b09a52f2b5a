// The parallel_for of a benchmark: OpenMP, as torch's is.
#pragma once

namespace cpuaccel::bench {

// From now on parallel_for spreads its ranges over `threads` threads.
void use_threads(int threads);

}  // namespace cpuaccel::bench
