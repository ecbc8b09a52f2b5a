// Where the values between the steps of a program lie: one block, in which values that are never
// needed at the same time share their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cpuaccel::graph {

// A value is written by step `first` and read until step `last`, at least `first`.
struct Lifetime {
  size_t bytes;
  size_t first, last;
  // The value, by its place in the list, whose memory this one takes over as it is: it is read for
  // the last time by step `first` and not smaller. -1: none.
  int64_t over = -1;
};

struct Arena {
  std::vector<size_t> offsets;  // of each value, multiples of 64
  size_t bytes = 0;
};

// `lifetimes` are in the order of `first`. Each value goes to the lowest place that is free: the
// largest values first, or those that are written first, whichever takes less.
Arena plan_arena(const std::vector<Lifetime>& lifetimes);

}  // namespace cpuaccel::graph
