// edge_stats for any vector class V along k (csr/scalar.h). Included by ISA sources.
#pragma once

#include "kernels/csr/equal.h"
#include "kernels/edge_stats/edge_stats.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// A running maximum and the number of values equal to it.
template <typename V>
struct EdgeLargest {
  using Vector = typename V::Vector;
  Vector best, ties;

  CPUACCEL_INLINE void begin() {
    best = V::set1(-static_cast<typename V::Number>(__builtin_inff()));
    ties = V::set1(0);
  }
  CPUACCEL_INLINE void see(Vector t) {
    const Vector one = V::set1(1);
    const auto more = V::larger_or_nan(t, best);
    ties = V::select(more, one, V::select(V::equal(t, best), V::add(ties, one), ties));
    best = V::select(more, t, best);
  }
  // A NaN equals nothing, so that it has 0 ties.
  CPUACCEL_INLINE Vector ties_of_numbers() const {
    return V::multiply(ties, graph_equal<V>(best, best));
  }
};

enum class EdgeWanted : uint8_t { all, smallest, largest };

// Columns [k, k + count) in kVectors vectors. If there is only one, it may be partial.
template <typename V, typename Index, EdgeWanted kWanted, int kVectors, bool kMasked>
struct EdgeStatsTile {
  using Number = typename V::Number;
  using Vector = typename V::Vector;
  static constexpr bool kMoments = kWanted == EdgeWanted::all;
  static constexpr bool kSmallest = kWanted != EdgeWanted::largest;
  static constexpr bool kLargest = kWanted != EdgeWanted::smallest;
  static constexpr int64_t kAhead = 16;  // distance of prefetching, in entries

  const EdgeStatsCall& call;
  int64_t k;
  typename V::Mask mask;

  CPUACCEL_INLINE Number* row(const void* of, int64_t number) const {
    return static_cast<Number*>(const_cast<void*>(of)) + number * call.K + k;
  }
  CPUACCEL_INLINE Vector load(const Number* from, int j) const {
    if constexpr (kMasked) {
      return V::load(from, mask);
    }
    return V::load(from + j * V::kLanes);
  }
  CPUACCEL_INLINE void store(Number* to, int j, Vector v) const {
    if constexpr (kMasked) {
      V::store(to, v, mask);
    } else {
      V::store(to + j * V::kLanes, v);
    }
  }
  CPUACCEL_INLINE Vector load_or_zero(const void* of, int64_t m, int j) const {
    return of == nullptr ? V::set1(0) : load(row(of, m), j);
  }
  CPUACCEL_INLINE static Vector negated(Vector v) { return V::multiply(v, V::set1(-1)); }
  CPUACCEL_INLINE static Vector minus(Vector a, Vector b) { return V::fma(b, V::set1(-1), a); }

  // Computes with integers, not pointers: `column` has not been checked against N yet.
  CPUACCEL_INLINE void ask_for_row(const void* of, Index column) const {
    const auto first =
        reinterpret_cast<uintptr_t>(of) +
        (static_cast<uint64_t>(column) * static_cast<uint64_t>(call.K) + static_cast<uint64_t>(k)) *
            sizeof(Number);
    constexpr int kBytes = kVectors * static_cast<int>(V::kLanes * sizeof(Number));
    for (int line = 0; line < kBytes; line += 64) {
      __builtin_prefetch(reinterpret_cast<const void*>(first + line));  // NOLINT: never read
    }
  }

  void nothing(int64_t m) const {
    const EdgeStats& s = call.stats;
    for (void* of : {s.mean, s.var, s.smallest, s.largest, s.ties_smallest, s.ties_largest}) {
      for (int j = 0; of != nullptr && j < kVectors; ++j) {
        store(row(of, m), j, V::set1(0));
      }
    }
  }

  bool stats(int64_t m) const {
    const auto* crow = call.csr.template crow_as<Index>();
    const auto* col = call.csr.template col_as<Index>();
    const auto N = static_cast<uint64_t>(call.csr.N);
    const int64_t begin = crow[m], end = crow[m + 1];
    if (begin == end) {
      nothing(m);
      return true;
    }
    if (static_cast<uint64_t>(col[begin]) >= N) {
      return false;
    }
    // Loops over these arrays are unrolled, because arrays indexed by a variable stay in memory.
    Vector shift[kVectors], first[kVectors], sums[kVectors], apart[kVectors], squares[kVectors];
    EdgeLargest<V> negative[kVectors], positive[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      shift[j] = load_or_zero(call.shift, m, j);
      first[j] = load(row(call.src, col[begin]), j);
      sums[j] = apart[j] = squares[j] = V::set1(0);
      negative[j].begin();
      positive[j].begin();
    }
    for (int64_t e = begin; e < end; ++e) {
      const auto column = static_cast<uint64_t>(col[e]);  // a negative column becomes large
      if (column >= N) [[unlikely]] {
        return false;
      }
      ask_for_row(call.src, col[e + kAhead < call.csr.nnz ? e + kAhead : e]);
      const Number* src = row(call.src, static_cast<int64_t>(column));
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        const Vector x = load(src, j);
        const Vector t = V::add(x, shift[j]);
        if constexpr (kMoments) {
          const Vector d = minus(x, first[j]);
          sums[j] = V::add(sums[j], t);
          apart[j] = V::add(apart[j], d);
          squares[j] = V::fma(d, d, squares[j]);
        }
        if constexpr (kSmallest) {
          negative[j].see(negated(t));
        }
        if constexpr (kLargest) {
          positive[j].see(t);
        }
      }
    }
    const EdgeStats& to = call.stats;
    const Vector count = V::set1(static_cast<Number>(end - begin));
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kMoments) {
        const Vector middle = V::divide(apart[j], count);
        store(row(to.mean, m), j, V::divide(sums[j], count));
        store(row(to.var, m), j, V::fma(negated(middle), middle, V::divide(squares[j], count)));
      }
      if constexpr (kSmallest) {
        store(row(to.smallest, m), j, negated(negative[j].best));
        store(row(to.ties_smallest, m), j, negative[j].ties_of_numbers());
      }
      if constexpr (kLargest) {
        store(row(to.largest, m), j, positive[j].best);
        store(row(to.ties_largest, m), j, positive[j].ties_of_numbers());
      }
    }
    return true;
  }

  // The share of the gradient that each message equal to the extreme gets.
  CPUACCEL_INLINE Vector share(const void* grad, const void* ties, Vector extreme, int64_t m,
                               int j) const {
    const Vector count = V::add(load(row(ties, m), j), graph_equal<V>(extreme, V::set1(0)));
    return V::divide(load_or_zero(grad, m, j), count);
  }

  bool gradient(int64_t m) const {
    const auto* crow = call.csr.template crow_as<Index>();
    const auto* col = call.csr.template col_as<Index>();
    const auto N = static_cast<uint64_t>(call.csr.N);
    const int64_t begin = crow[m], end = crow[m + 1];
    const EdgeStats& of = call.stats;
    Vector shift[kVectors], all[kVectors], apart[kVectors], mean[kVectors];
    Vector smallest[kVectors], of_smallest[kVectors], largest[kVectors], of_largest[kVectors];
    const Vector count = V::set1(static_cast<Number>(end > begin ? end - begin : 1));
    for (int j = 0; j < kVectors; ++j) {
      shift[j] = load_or_zero(call.shift, m, j);
      Vector total = V::set1(0);
      if constexpr (kMoments) {
        const Vector of_mean = load_or_zero(call.grad_mean, m, j);
        total = of_mean;
        all[j] = V::divide(of_mean, count);
        apart[j] = V::divide(V::multiply(load_or_zero(call.grad_var, m, j), V::set1(2)), count);
        mean[j] = load(row(of.mean, m), j);
      }
      if constexpr (kSmallest) {
        smallest[j] = load(row(of.smallest, m), j);
        of_smallest[j] = share(call.grad_smallest, of.ties_smallest, smallest[j], m, j);
        total = V::fma(of_smallest[j], load(row(of.ties_smallest, m), j), total);
      }
      if constexpr (kLargest) {
        largest[j] = load(row(of.largest, m), j);
        of_largest[j] = share(call.grad_largest, of.ties_largest, largest[j], m, j);
        total = V::fma(of_largest[j], load(row(of.ties_largest, m), j), total);
      }
      if (call.grad_shift != nullptr) {
        store(row(call.grad_shift, m), j, begin == end ? V::set1(0) : total);
      }
    }
    for (int64_t e = begin; e < end; ++e) {
      const auto column = static_cast<uint64_t>(col[e]);
      if (column >= N) [[unlikely]] {
        return false;
      }
      const Index later = col[e + kAhead < call.csr.nnz ? e + kAhead : e];
      ask_for_row(call.src, later);
      ask_for_row(call.grad_src, later);
      const Number* src = row(call.src, static_cast<int64_t>(column));
      Number* to = row(call.grad_src, static_cast<int64_t>(column));
      for (int j = 0; j < kVectors; ++j) {
        const Vector t = V::add(load(src, j), shift[j]);
        Vector sum = load(to, j);
        if constexpr (kMoments) {
          sum = V::add(sum, V::fma(apart[j], minus(t, mean[j]), all[j]));
        }
        if constexpr (kSmallest) {
          sum = V::fma(graph_equal<V>(t, smallest[j]), of_smallest[j], sum);
        }
        if constexpr (kLargest) {
          sum = V::fma(graph_equal<V>(t, largest[j]), of_largest[j], sum);
        }
        store(to, j, sum);
      }
    }
    return true;
  }

  static bool run(const EdgeStatsCall& call, EdgeStatsStep step, int64_t k, typename V::Mask mask,
                  int64_t first, int64_t last) {
    const EdgeStatsTile tile{call, k, mask};
    for (int64_t m = first; m < last; ++m) {
      if (!(step == EdgeStatsStep::stats ? tile.stats(m) : tile.gradient(m))) {
        return false;
      }
    }
    return true;
  }
};

// Computes rows [row, last) of columns [k, end).
template <typename V, typename Index, EdgeWanted kWanted>
bool edge_stats_tiles(const EdgeStatsCall& call, EdgeStatsStep step, int64_t k, int64_t end,
                      int64_t row, int64_t last) {
  // Few enough vectors that all values of a row stay in registers.
  constexpr int64_t kLanes = V::kLanes;
  constexpr int64_t kFew = kLanes == 1 ? 1 : kWanted == EdgeWanted::all ? 2 : 4;
  const auto whole = V::mask(kLanes);
  bool good = true;
  for (; k + kFew * kLanes <= end; k += kFew * kLanes) {
    good = good && EdgeStatsTile<V, Index, kWanted, static_cast<int>(kFew), false>::run(
                       call, step, k, whole, row, last);
  }
  for (; k + kLanes <= end; k += kLanes) {
    good = good && EdgeStatsTile<V, Index, kWanted, 1, false>::run(call, step, k, whole, row, last);
  }
  if (k < end) {
    good = good && EdgeStatsTile<V, Index, kWanted, 1, true>::run(call, step, k, V::mask(end - k),
                                                                  row, last);
  }
  return good;
}

template <typename V, typename Index>
bool edge_stats_wanted(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin, int64_t end) {
  const bool rows = step == EdgeStatsStep::stats;
  const int64_t k = rows ? 0 : begin, columns = rows ? call.K : end;
  const int64_t first = rows ? begin : 0, last = rows ? end : call.csr.M;
  if (call.stats.mean != nullptr) {
    return edge_stats_tiles<V, Index, EdgeWanted::all>(call, step, k, columns, first, last);
  }
  if (call.stats.smallest != nullptr) {
    return edge_stats_tiles<V, Index, EdgeWanted::smallest>(call, step, k, columns, first, last);
  }
  return edge_stats_tiles<V, Index, EdgeWanted::largest>(call, step, k, columns, first, last);
}

template <typename F32, typename F64>
bool edge_stats_by_type(const EdgeStatsCall& call, EdgeStatsStep step, int64_t begin, int64_t end) {
  if (call.type == DataType::f64) {
    return call.csr.wide ? edge_stats_wanted<F64, int64_t>(call, step, begin, end)
                         : edge_stats_wanted<F64, int32_t>(call, step, begin, end);
  }
  return call.csr.wide ? edge_stats_wanted<F32, int64_t>(call, step, begin, end)
                       : edge_stats_wanted<F32, int32_t>(call, step, begin, end);
}

}  // namespace
}  // namespace cpuaccel::kernels
