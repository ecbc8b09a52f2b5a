#include "memory/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace cpuaccel::memory {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) {
    return value;
  }
  return std::nullopt;  // missing, or "max"
}

// The number behind `key` in a file of lines such as "MemTotal:  123 kB" or "inactive_file 123".
std::optional<int64_t> number_after(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value && name == key) {
      return value;
    }
  }
  return std::nullopt;
}

// Names of the same files in the two versions of cgroups.
struct CgroupFiles {
  const char* controller;  // as in /proc/self/cgroup, "" in version 2
  const char* mount;
  const char* limit;
  const char* usage;
  const char* inactive;
};
constexpr CgroupFiles kVersions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file"},
};

// This process's cgroup in the hierarchy of `controller`: the line is "7:cpu,memory:/a/b".
std::optional<std::string> cgroup_of(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    std::istringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) {
      return line.substr(second + 1);
    }
    for (std::string name; std::getline(names, name, ',');) {
      if (!controller.empty() && name == controller) {
        return line.substr(second + 1);
      }
    }
  }
  return std::nullopt;
}

void apply_cgroup(const std::string& folder, const CgroupFiles& files, MachineMemory& memory) {
  const auto limit = number_in(folder + "/" + files.limit);
  if (!limit || *limit >= kUnlimited / 2) {  // version 1 has a huge number for no limit
    return;
  }
  // Inactive page cache is reclaimed before anything else, so it counts as available.
  const int64_t used = number_in(folder + "/" + files.usage).value_or(0) -
                       number_after(folder + "/memory.stat", files.inactive).value_or(0);
  memory.limit = std::min(memory.limit, *limit);
  memory.available = std::min(memory.available, std::max<int64_t>(0, *limit - used));
}

}  // namespace

MachineMemory machine_memory(const std::string& root) {
  const std::string meminfo = root + "/proc/meminfo";
  MachineMemory memory{kUnlimited, kUnlimited};
  if (const auto total = number_after(meminfo, "MemTotal:")) {
    memory.limit = *total * 1024;
    memory.available = number_after(meminfo, "MemAvailable:").value_or(*total) * 1024;
  }
  for (const auto& files : kVersions) {
    auto path = cgroup_of(root, files.controller);
    // In a container, the path may be that of the host; then only the root of the mount exists.
    while (path) {
      apply_cgroup(root + files.mount + *path, files, memory);
      const auto slash = path->rfind('/');
      if (path->empty() || slash == std::string::npos) {
        break;
      }
      path->resize(slash);
    }
  }
  return memory;
}

}  // namespace cpuaccel::memory
