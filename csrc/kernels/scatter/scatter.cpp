#include "kernels/scatter/scatter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/round_up.h"
#include "kernels/scatter/order.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<ScatterFunction>, name, scatter_##name)
#include "kernels/scatter/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kLine = 64;        // bytes: the smallest part of a row that a thread owns
constexpr int64_t kGrain = 1 << 15;  // entries times columns
constexpr int64_t kIndexGrain = 1 << 16;
constexpr int64_t kNearBytes = 2 << 20;  // bytes of dst that stay in the cores' caches
constexpr int64_t kColumnsToScan = 32;

// Uses signs instead of comparisons so that this loop vectorizes: SSE2 has no 64-bit comparison.
// With low <= 0 <= high, a number below low makes number - low negative, and one of high or more
// makes high - 1 - number negative; only the other difference can wrap. In 32 bits, no difference
// of a number within the range may wrap.
template <typename Number, typename Index>
bool within(const Index* index, int64_t count, int64_t low, int64_t high) {
  using Bits = std::make_unsigned_t<Number>;
  const auto least = static_cast<Bits>(low), last = static_cast<Bits>(high - 1);
  Bits signs = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<Bits>(static_cast<Number>(index[i]));
    signs |= (number - least) | (last - number);
  }
  return static_cast<Number>(signs) >= 0;
}

bool part_within(const void* index, bool wide, int64_t begin, int64_t end, int64_t low,
                 int64_t high) {
  constexpr int64_t kMost32 = int64_t{1} << 30;
  if (wide) {
    return within<int64_t>(static_cast<const int64_t*>(index) + begin, end - begin, low, high);
  }
  const auto* narrow = static_cast<const int32_t*>(index) + begin;
  return low >= -kMost32 && high <= kMost32 ? within<int32_t>(narrow, end - begin, low, high)
                                            : within<int64_t>(narrow, end - begin, low, high);
}

// Whether `parts` ranges of equally many rows occur about equally often. Samples the index.
template <typename Index>
bool named_evenly(const Index* index, const ScatterCall& call, int64_t parts) {
  constexpr int64_t kSamples = 128, kMostParts = 16;
  const int64_t step = divide_up(call.E, kSamples), rows = divide_up(call.N, parts);
  std::array<int64_t, kMostParts> named{};
  if (parts > kMostParts) {
    return false;
  }
  int64_t samples = 0;
  for (int64_t e = 0; e < call.E; e += step, ++samples) {
    const auto row = static_cast<uint64_t>(index[e]);
    if (row < static_cast<uint64_t>(call.N)) {
      ++named[static_cast<size_t>(row) / static_cast<size_t>(rows)];
    }
  }
  return *std::ranges::max_element(named) * parts <= samples * 3 / 2;
}

// How dst is divided among threads. A small dst is divided by rows: the hardware prefetcher fetches
// lines behind those that are read, and with other threads' columns there it would take them from
// those threads' caches. Otherwise dst is divided by columns of at least a line, then by rows.
struct Division {
  int64_t by_columns = 1, by_rows = 1;
  int64_t columns = 0, rows = 0;  // per part, except the last

  explicit Division(const ScatterCall& call) {
    const int64_t size = call.dst_size(), line = kLine / size, threads = scatter_threads(call);
    const int64_t rows_first =
        threads > 1 && call.N * call.K <= kNearBytes / size ? row_parts(call, threads) : 1;
    by_columns = std::clamp<int64_t>(call.K / line, 1, threads / rows_first);
    columns = round_up(divide_up(call.K, by_columns), line);
    by_columns = divide_up(call.K, columns);
    rows = divide_up(call.N, std::clamp<int64_t>(threads / by_columns, 1, call.N));
    by_rows = divide_up(call.N, rows);
  }

  // Each part reads the whole index, which takes as long as adding some columns of each entry.
  static int64_t row_parts(const ScatterCall& call, int64_t threads) {
    const int64_t parts =
        std::clamp<int64_t>(call.K / kColumnsToScan, 1, std::min(threads, call.N));
    const bool even = call.wide ? named_evenly(call.index_as<int64_t>(), call, parts)
                                : named_evenly(call.index_as<int32_t>(), call, parts);
    return even ? parts : 1;
  }

  ScatterWork part(const ScatterCall& call, int64_t number) const {
    const int64_t row = number / by_columns * rows, k = number % by_columns * columns;
    return {row, std::min(rows, call.N - row), k, std::min(columns, call.K - k)};
  }
};

}  // namespace

std::span<const KernelRow<ScatterFunction>> scatter_kernels() { return kRows; }

bool index_within(const void* index, bool wide, int64_t count, int64_t low, int64_t high) {
  std::atomic<bool> good{true};
  parallel_for(0, count, kIndexGrain, [&](int64_t begin, int64_t end) {
    if (!part_within(index, wide, begin, end, low, high)) {
      good.store(false, std::memory_order_relaxed);
    }
  });
  return good;
}

int64_t scatter_threads(const ScatterCall& call) {
  return std::clamp<int64_t>(call.E / divide_up(kGrain, call.K), 1, parallel_threads());
}

void for_each_scatter_part(const ScatterCall& call,
                           const std::function<void(const ScatterWork& part)>& body) {
  if (call.E == 0 || call.N == 0 || call.K == 0) {
    return;
  }
  const Division division(call);
  parallel_for(0, division.by_columns * division.by_rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      body(division.part(call, number));
    }
  });
}

void scatter(const ScatterCall& call, ScatterFunction* function) {
  if (const auto sorted = sorted_entries(call)) {
    scatter_in_order(call, sorted->order(), function);
    return;
  }
  for_each_scatter_part(call, [&](const ScatterWork& part) { function(call, part); });
}

void scatter(const ScatterCall& call) { scatter(call, first_usable(scatter_kernels()).function); }

}  // namespace cpuaccel::kernels
