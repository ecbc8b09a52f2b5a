#include "base/vendor.h"

namespace cpuaccel {

bool amd_cpu() {
#if defined(__x86_64__)
  static const bool amd = __builtin_cpu_is("amd") != 0;
  return amd;
#else
  return false;
#endif
}

}  // namespace cpuaccel
