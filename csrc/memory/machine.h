// How much memory this process may use, and whether it is getting short.
#pragma once

#include <cstdint>
#include <string>

namespace cpuaccel::memory {

struct MachineMemory {
  int64_t limit = 0;      // bytes: the machine's, or the tightest cgroup's above this process
  int64_t available = 0;  // bytes of it that could still be had without swapping
};

// Reads /proc and /sys/fs/cgroup below `root` (tests have one of their own). cgroup v2 and v1. What
// cannot be read does not limit.
MachineMemory machine_memory(const std::string& root = "");

}  // namespace cpuaccel::memory
