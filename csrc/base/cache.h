// Properties of the CPU's caches as the system reports them.
#pragma once

namespace cpuaccel {

// Associativity of the L1 data cache, read once. At least 4, the smallest value among supported
// CPUs; 4 as well if the system does not report it.
int l1_ways();

}  // namespace cpuaccel
