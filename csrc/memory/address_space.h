// Address space that the process may still map, under RLIMIT_AS and RLIMIT_DATA.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/api.h"

namespace cpuaccel::memory {

struct AddressSpace {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  int64_t limit = kUnlimited;      // bytes: the tighter of the two limits
  int64_t available = kUnlimited;  // bytes that can still be mapped
};

// Takes two system calls if there is no limit. Otherwise it reads how much is mapped from
// /proc/self/statm below `root`; if that cannot be read, nothing is available.
CPUACCEL_API AddressSpace address_space(const std::string& root = "");

}  // namespace cpuaccel::memory
