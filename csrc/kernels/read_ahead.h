// Asking for memory that is read once, from front to back, before it is read.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {

struct ReadAhead {
  int64_t bytes;   // from what is read now
  uintptr_t mask;  // of addresses, those of one line in so many
  bool into_l2 = false;

  CPUACCEL_INLINE void ask(const void* src) const {
    const auto at = (reinterpret_cast<uintptr_t>(src) + static_cast<uintptr_t>(bytes)) & mask;
    const auto* line = reinterpret_cast<const void*>(at);  // NOLINT: never read
    if (into_l2) {
      __builtin_prefetch(line, 0, 2);
    } else {
      __builtin_prefetch(line);
    }
  }
};

// The very line that is read.
constexpr ReadAhead kReadAheadOfNothing{0, ~uintptr_t{63}};

// Every line. On Zen 5 6 to 12 KiB bring what memory gives, 3 and 24 KiB a twentieth less.
constexpr ReadAhead kReadAheadOfLines{8192, ~uintptr_t{63}};

// The same, into L2. A Xeon with AMX brings 22 to 24 GB/s so from huge pages, into L1 17 to 21 and
// 13 to 16 if it is not asked; 6 to 24 KiB are as good.
constexpr ReadAhead kReadAheadIntoL2{12288, ~uintptr_t{63}, true};

// A line of each page: the CPU's own prefetching, which ends with a page, goes on in the next one.
// No power of two, whose lines share sets of L1.
constexpr ReadAhead kReadAheadOfPages{25 * 4096, ~uintptr_t{4095}};

// What this CPU is best asked for: where memory has no gaps, and of rows with gaps between them, of
// which every line is.
const ReadAhead& read_ahead();
const ReadAhead& read_ahead_of_lines();

// Of rows, `together` of which are read at once: by whole ones of these, each of `bytes` bytes and
// `stride` behind the one before.
CPUACCEL_INLINE ReadAhead read_ahead_of_rows(int64_t bytes, int64_t stride, int64_t together) {
  ReadAhead ahead = stride == bytes ? read_ahead() : read_ahead_of_lines();
  const int64_t size = together * bytes;
  ahead.bytes = (ahead.bytes + size - 1) / size * together * stride;
  return ahead;
}

}  // namespace cpuaccel::kernels
