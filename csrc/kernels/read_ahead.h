// Asking for memory that is read once, from front to back, before it is read.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {

struct ReadAhead {
  int64_t bytes;   // from what is read now
  uintptr_t mask;  // of addresses, those of one line in so many

  CPUACCEL_INLINE bool is_of_pages() const { return (mask & 64) == 0; }

  CPUACCEL_INLINE void ask(const void* src) const {
    const auto at = (reinterpret_cast<uintptr_t>(src) + static_cast<uintptr_t>(bytes)) & mask;
    __builtin_prefetch(reinterpret_cast<const void*>(at));  // NOLINT: never read
  }
};

// Every line. On Zen 5 6 to 12 KiB bring what memory gives, 3 and 24 KiB a twentieth less.
constexpr ReadAhead kReadAheadOfLines{8192, ~uintptr_t{63}};

// A line of each page: the CPU's own prefetching, which ends with a page, goes on in the next one.
// No power of two, whose lines share sets of L1.
constexpr ReadAhead kReadAheadOfPages{25 * 4096, ~uintptr_t{4095}};

// What this CPU is best asked for where memory has no gaps; where it has, every line is it.
const ReadAhead& read_ahead();

}  // namespace cpuaccel::kernels
