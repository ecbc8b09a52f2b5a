// What the system tells of the CPU's caches.
#pragma once

namespace cpuaccel {

// Lines of an address's set in the L1 data cache, asked for once; 4, the fewest that CPUs of ours
// have, where the system does not say.
int l1_ways();

}  // namespace cpuaccel
