// Hit, miss and size counters of the caches of tensors and of plans.
#pragma once

#include <cstdint>

namespace cpuaccel::ops {

struct CacheStats {
  int64_t capacity = 0, size = 0, bytes = 0;
  int64_t hits = 0, misses = 0, stale = 0, evictions = 0;
};

}  // namespace cpuaccel::ops
