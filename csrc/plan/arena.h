// Plans the arena: the offset of each intermediate tensor of a plan in one block of memory. Values
// whose lifetimes do not overlap share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cpuaccel::plan {

// A value is written by step `first` and read until step `last`, which is at least `first`.
struct Lifetime {
  size_t bytes;
  size_t first, last;
  // Index of the value whose memory this one takes over in place, -1 if none. That value is read
  // for the last time by step `first` and is at least as large.
  int64_t over = -1;
};

struct Arena {
  std::vector<size_t> offsets;  // of each value, multiples of 64
  size_t bytes = 0;
};

// `lifetimes` are in the order of `first`. Each value gets the lowest free offset. Values are
// placed largest first or in the order of writing, whichever takes less memory.
Arena plan_arena(const std::vector<Lifetime>& lifetimes);

}  // namespace cpuaccel::plan
