#include "kernels/scatter/order.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/csr/counting.h"
#include "kernels/csr/csr.h"

namespace cpuaccel::kernels {
namespace {

// Measured on Zen 4. The unsorted loop sums a row of half a kilobyte in one pass and reads src in
// order, which is faster if dst is larger than the nearer caches. Longer rows take several passes,
// and other ops twice as many. If dst fits into L2, sorting does not pay.
bool is_worth_sorting(const ScatterCall& call) {
  constexpr int64_t kOnePass = 512, kInL2 = 256 << 10, kNear = 2 << 20;
  if (call.K == 0 || call.E < call.N || !fits_int32(call.E)) {
    return false;
  }
  const int64_t row_bytes = call.K * call.dst_size();
  const bool near = call.N <= kNear / row_bytes;
  const int64_t least = call.op == ScatterOp::sum && !near ? 2 * kOnePass : kOnePass;
  return row_bytes >= least && call.N >= kInL2 / row_bytes;
}

template <typename Index>
bool sort(const Index* index, const ScatterCall& call, SortedEntries& sorted) {
  Counts<int32_t> counts(call.E, call.N, parallel_threads());
  if (!count(index, counts)) {
    return false;
  }
  sorted.begins.resize(static_cast<size_t>(call.N) + 1);
  sorted.entries.resize(static_cast<size_t>(call.E));
  place(counts, sorted.begins.data());
  parallel_for(0, counts.ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t range = first; range < last; ++range) {
      int32_t* next = counts.counts(range);
      for (int64_t e = counts.begin(range); e < counts.begin(range + 1); ++e) {
        sorted.entries[static_cast<size_t>(next[index[e]]++)] = static_cast<int32_t>(e);
      }
    }
  });
  return true;
}

// One part handles all entries of a row, so a row with most of the entries would leave threads
// idle.
bool is_even(const ScatterCall& call, const SortedEntries& sorted) {
  const int64_t most = call.E / scatter_threads(call) / 2;
  for (size_t n = 0; n < static_cast<size_t>(call.N); ++n) {
    if (sorted.begins[n + 1] - sorted.begins[n] > most) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<SortedEntries> sorted_entries(const ScatterCall& call) {
  if (!is_worth_sorting(call)) {
    return std::nullopt;
  }
  SortedEntries result;
  const bool sorted = call.wide ? sort(call.index_as<int64_t>(), call, result)
                                : sort(call.index_as<int32_t>(), call, result);
  if (!sorted || !is_even(call, result)) {
    return std::nullopt;
  }
  return result;
}

void scatter_in_order(const ScatterCall& call, const ScatterOrder& order,
                      ScatterFunction* function) {
  ScatterCall in_order = call;
  in_order.order = &order;
  const int64_t parts = scatter_threads(call);
  const auto row_of = [&](int64_t part) {
    const int64_t entry = call.E / parts * part;
    return part == parts
               ? call.N
               : std::lower_bound(order.begins, order.begins + call.N, entry) - order.begins;
  };
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const int64_t row = row_of(first);
    function(in_order, {row, row_of(last) - row, 0, call.K});
  });
}

}  // namespace cpuaccel::kernels
