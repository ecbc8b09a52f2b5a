#include "base/cache.h"

#include <unistd.h>

#include <algorithm>

namespace cpuaccel {

int l1_ways() {
  // In a virtual machine, CPUID causes an exit to the host.
  static const int ways =
      std::max(4, static_cast<int>(sysconf(_SC_LEVEL1_DCACHE_ASSOC)));  // 0: not reported
  return ways;
}

}  // namespace cpuaccel
