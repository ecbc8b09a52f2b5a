#include "base/cache.h"

#include <unistd.h>

#include <algorithm>

namespace cpuaccel {

int l1_ways() {
  // CPUID costs a virtual machine an exit to its host.
  static const int ways =
      std::max(4, static_cast<int>(sysconf(_SC_LEVEL1_DCACHE_ASSOC)));  // 0: it does not say
  return ways;
}

}  // namespace cpuaccel
