// Asking for memory that is read once, from front to back, before it is read.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {

struct ReadAhead {
  int64_t bytes;   // from what is read now
  uintptr_t mask;  // of addresses, those of one line in so many

  CPUACCEL_INLINE void ask(const void* src) const {
    const auto at = (reinterpret_cast<uintptr_t>(src) + static_cast<uintptr_t>(bytes)) & mask;
    __builtin_prefetch(reinterpret_cast<const void*>(at));  // NOLINT: never read
  }
};

// The very line that is read.
constexpr ReadAhead kReadAheadOfNothing{0, ~uintptr_t{63}};

// Every line. On Zen 5 6 to 12 KiB bring what memory gives, 3 and 24 KiB a twentieth less.
constexpr ReadAhead kReadAheadOfLines{8192, ~uintptr_t{63}};

// A line of each page: the CPU's own prefetching, which ends with a page, goes on in the next one.
// No power of two, whose lines share sets of L1.
constexpr ReadAhead kReadAheadOfPages{25 * 4096, ~uintptr_t{4095}};

// What this CPU is best asked for where memory has no gaps.
const ReadAhead& read_ahead();

// Of rows, `together` of which are read at once: by whole ones of these, each of `bytes` bytes and
// `stride` behind the one before. Of rows with gaps between them every line is asked for.
CPUACCEL_INLINE ReadAhead read_ahead_of_rows(int64_t bytes, int64_t stride, int64_t together) {
  ReadAhead ahead = stride == bytes ? read_ahead() : kReadAheadOfLines;
  const int64_t size = together * bytes;
  ahead.bytes = (ahead.bytes + size - 1) / size * together * stride;
  return ahead;
}

}  // namespace cpuaccel::kernels
