// Memory limit and available memory of this process, from /proc and cgroups.
#pragma once

#include <cstdint>
#include <string>

#include "base/api.h"

namespace cpuaccel::memory {

struct MachineMemory {
  int64_t limit = 0;  // bytes: the machine's, or those of the tightest cgroup above this process
  int64_t available = 0;  // bytes of it that are available without swapping
};

// Reads /proc and /sys/fs/cgroup below `root` (tests use their own), for cgroup v2 and v1. Files
// that cannot be read set no limit.
CPUACCEL_API MachineMemory machine_memory(const std::string& root = "");

}  // namespace cpuaccel::memory
