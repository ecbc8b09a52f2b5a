// Parallel counting sort of graph entries by key: counts per range, and the positions they give.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kCountGrain = 1 << 16;  // entries per thread at least

// Entries split into ranges. Each range has its own counts of the keys 0 to N - 1.
template <typename Out>
struct Counts {
  Counts(int64_t entries, int64_t keys, int64_t most)
      : nnz(entries), N(keys), ranges(std::clamp<int64_t>(entries / kCountGrain, 1, most)) {
    // The counts must not take more memory and time than the entries themselves.
    ranges = std::clamp<int64_t>(ranges, 1, std::max<int64_t>(1, 2 * nnz / (N + 1)));
    of_range.assign(static_cast<size_t>(ranges), std::vector<Out>(static_cast<size_t>(N)));
  }
  int64_t begin(int64_t range) const {
    return nnz / ranges * range + std::min(range, nnz % ranges);
  }
  Out* counts(int64_t range) { return of_range[static_cast<size_t>(range)].data(); }

  int64_t nnz, N, ranges;
  std::vector<std::vector<Out>> of_range;
};

// False if a key is outside of [0, N).
template <typename In, typename Out>
bool count(const In* keys, Counts<Out>& counts) {
  std::atomic<bool> good{true};
  parallel_for(0, counts.ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t range = first; range < last; ++range) {
      Out* of_key = counts.counts(range);
      for (int64_t e = counts.begin(range); e < counts.begin(range + 1); ++e) {
        if (static_cast<uint64_t>(keys[e]) >= static_cast<uint64_t>(counts.N)) {
          good.store(false, std::memory_order_relaxed);
          return;
        }
        ++of_key[keys[e]];
      }
    }
  });
  return good;
}

// Turns counts into the positions where a range writes its entries of each key. The entries of key
// n begin at begins[n].
template <typename Out>
void place(Counts<Out>& counts, Out* begins) {
  Out next = 0;
  for (int64_t n = 0; n < counts.N; ++n) {
    begins[n] = next;
    for (auto& of_key : counts.of_range) {
      const Out entries = of_key[static_cast<size_t>(n)];
      of_key[static_cast<size_t>(n)] = next;
      next += entries;
    }
  }
  begins[counts.N] = next;
}

}  // namespace
}  // namespace cpuaccel::kernels
