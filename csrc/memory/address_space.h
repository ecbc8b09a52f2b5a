// The address space that the process may still map: RLIMIT_AS and RLIMIT_DATA.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace cpuaccel::memory {

struct AddressSpace {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  int64_t limit = kUnlimited;      // bytes: the tighter of the two limits
  int64_t available = kUnlimited;  // bytes that can still be mapped
};

// Two system calls where there is no limit. With one, /proc/self/statm below `root` says how much
// is mapped; where that cannot be read nothing is available.
AddressSpace address_space(const std::string& root = "");

}  // namespace cpuaccel::memory
