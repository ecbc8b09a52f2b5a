#include "memory/address_space.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace cpuaccel::memory {
namespace {

std::optional<int64_t> limit_of(int resource) {
  rlimit found{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &found) != 0 ||
      found.rlim_cur == RLIM_INFINITY ||
      found.rlim_cur > static_cast<rlim_t>(AddressSpace::kUnlimited)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(found.rlim_cur);
}

struct Mapped {
  int64_t all = AddressSpace::kUnlimited;
  int64_t data = AddressSpace::kUnlimited;
};

// Does not use a stream: this is read whenever a large block is freed.
Mapped mapped(const std::string& root) {
  std::array<char, 256> text{};
  const int file = open((root + "/proc/self/statm").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return {};
  }
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  long long all = 0, data = 0;
  if (length <= 0 || std::sscanf(text.data(), "%lld %*d %*d %*d %*d %lld", &all, &data) != 2) {
    return {};
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  return {all * page, data * page};
}

}  // namespace

AddressSpace address_space(const std::string& root) {
  const auto all = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
  AddressSpace space;
  if (!all && !data) {
    return space;
  }
  const Mapped used = mapped(root);
  const auto apply = [&](int64_t limit, int64_t bytes) {
    space.limit = std::min(space.limit, limit);
    space.available = std::min(space.available, std::max<int64_t>(0, limit - bytes));
  };
  if (all) {
    apply(*all, used.all);
  }
  if (data) {
    apply(*data, used.data);
  }
  return space;
}

}  // namespace cpuaccel::memory
