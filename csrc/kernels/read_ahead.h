// Software prefetching for memory that is read once, from front to back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {

struct ReadAhead {
  int64_t bytes;   // distance from the address that is read now
  uintptr_t mask;  // rounds the address down: to a line, or to a page
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

// Asks for the lines of kBytes bytes at `src`, ahead of it. Only for few rows: with
// more, the products take longer than the reading, and the same memory is read again from a cache.
template <int kRows, int kBytes>
CPUACCEL_INLINE void ask_for_few_rows(const ReadAhead& ahead, const std::byte* src) {
  static_assert(kBytes <= 128);
  if constexpr (kRows <= 4) {
    ahead.ask(src);
    if constexpr (kBytes > 64) {
      ahead.ask(src + 64);
    }
  }
}

// No distance: the cache line that is read now.
constexpr ReadAhead kReadAheadOfNothing{0, ~uintptr_t{63}};

// Every line. On Zen 5 a distance of 6 to 12 KiB reaches the memory's bandwidth; 3 and 24 KiB reach
// a twentieth less.
constexpr ReadAhead kReadAheadOfLines{8192, ~uintptr_t{63}};

// Every line, into L2. On a Xeon with AMX this reads 22 to 24 GB/s from huge pages; prefetching
// into L1 reads 17 to 21, no prefetching 13 to 16. Distances of 6 to 24 KiB are equally good.
constexpr ReadAhead kReadAheadIntoL2{12288, ~uintptr_t{63}, true};

// One line of each page. The hardware prefetcher stops at the end of a page; this makes it continue
// in the next one. The distance is not a power of two, because such lines share sets of L1.
constexpr ReadAhead kReadAheadOfPages{25 * 4096, ~uintptr_t{4095}};

// Zen 3, one row by the weights of Qwen2.5-0.5B's layers, share of the bandwidth of plain loads at
// a distance of 2, 3, 4 and 8 KiB: 4 bits 0.78, 0.84, 0.81 and 0.73; 8 bits 0.86, 0.83, 0.81 and
// 0.76.
constexpr ReadAhead kReadAheadOnZen3{3072, ~uintptr_t{63}};

// Zen 3, products of dots: bf16 at 512, 1024, 1280, 1536 and 8192 bytes 0.75, 0.80, 0.87, 0.82 and
// 0.67; f32 0.92, 0.89, 0.86, 0.84 and 0.77. So the distance is a number of elements.
constexpr int64_t kElementsAheadOnZen3 = 320;

// The best prefetching on this CPU. read_ahead() is for contiguous memory,
// read_ahead_of_elements() for products that read little else, and read_ahead_of_lines() for rows
// with gaps between them, where every line is prefetched.
const ReadAhead& read_ahead();
ReadAhead read_ahead_of_elements(int64_t element_bytes);
const ReadAhead& read_ahead_of_lines();

// Panels of weights that are read once: how many bytes ahead the best prefetching reads, or 0 if it
// reads the panel behind. Zen 3 has 0.81 of the bandwidth with the panel behind, and at 1, 2, 3, 4
// and 8 KiB 0.83, 0.91, 0.87, 0.82 and 0.79. A decoder's step on Zen 4 reads 17.6 GB/s with the
// panel behind, and at 2, 4, 6 and 8 KiB 23.9, 22.1, 18.0 and 18.0.
int64_t bytes_ahead_of_panels();

// For rows of `bytes` bytes, `stride` bytes apart, that are read `together` at a time. The distance
// is rounded up to a whole number of such groups.
CPUACCEL_INLINE ReadAhead read_ahead_of_rows(int64_t bytes, int64_t stride, int64_t together) {
  ReadAhead ahead = stride == bytes ? read_ahead() : read_ahead_of_lines();
  const int64_t size = together * bytes;
  ahead.bytes = (ahead.bytes + size - 1) / size * together * stride;
  return ahead;
}

}  // namespace cpuaccel::kernels
