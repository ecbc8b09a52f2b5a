// Loops of the spmm kernels, templated on a vector type V along the columns. Included by ISA files.
//
// V has Element (type of src and dst), Number (type of the arithmetic), Vector, Mask, kLanes,
// kMostVectors and the functions in csr/scalar.h.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/inline.h"
#include "kernels/spmm/spmm.h"

namespace cpuaccel::kernels {
namespace {

enum class Op { sum, largest, largest_arg };

constexpr int kLine = 64;  // bytes of a cache line

// The operands of some columns that do not change from entry to entry. Copied into registers by
// each run.
template <typename V, typename Index>
struct SpmmTile {
  using Element = typename V::Element;
  using Number = typename V::Number;

  const Index* col;
  uint64_t N;
  int64_t last_entry;
  const void* values;
  int64_t value_of_entry;  // -1: one per entry; 0: the first for all
  bool wide_values;
  Number sign;         // -1 for amin, computed as the largest of negated values
  const Element* src;  // at the first column
  int64_t stride;
  int64_t k, columns;
  typename V::Mask mask;  // for fewer columns than lanes
  int64_t ahead;          // in entries; 0 if src is in a near cache
  bool ragged;            // rows are not aligned to cache lines

  CPUACCEL_INLINE Number value(int64_t e) const {
    if constexpr (!std::is_same_v<Element, Number>) {
      if (!wide_values) {
        return V::number(static_cast<const Element*>(values)[e & value_of_entry]);
      }
    }
    return static_cast<const Number*>(values)[e & value_of_entry];
  }

  // Offset of vector j of the columns; the last one may overlap the one before.
  template <int kVectors>
  CPUACCEL_INLINE int64_t offset(int j) const {
    return j > 0 && j == kVectors - 1 ? columns - V::kLanes : j * V::kLanes;
  }

  // Prefetches by integer address, not by pointer, because this column is not checked yet.
  template <int kVectors>
  CPUACCEL_INLINE void ask_for_row(int64_t e) const {
    constexpr int kBytes = kVectors * static_cast<int>(V::kLanes * sizeof(Element));
    if (ahead == 0) {
      return;
    }
    const int64_t later = e + ahead < last_entry ? e + ahead : last_entry;
    const auto row = static_cast<uint64_t>(col[later]) * static_cast<uint64_t>(stride);
    const auto first = reinterpret_cast<uintptr_t>(src) + row * sizeof(Element);
    for (int line = 0; line < kBytes; line += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(first + line));  // NOLINT: never read
    }
    if (ragged) {
      const auto end = first + static_cast<uint64_t>(columns) * sizeof(Element);
      __builtin_prefetch(reinterpret_cast<const void*>(end - 1));  // NOLINT: likewise
    }
  }
};

// Reduces entries over kVectors vectors of columns. kMasked: one vector that is not full.
template <typename V, typename Index, Op kOp, int kVectors, bool kMasked>
struct SpmmRun {
  using Tile = SpmmTile<V, Index>;
  using Element = typename V::Element;
  using Number = typename V::Number;
  using Vector = typename V::Vector;
  // Several independent chains of entries, if a single one would be limited by latency.
  static constexpr int kChains = kVectors > 2 ? 1 : kVectors == 2 ? 2 : 4;
  // Shorter rows use one chain. The ends of two loops and of the joining are three branches that
  // are unpredictable for rows of a few entries, and each costs as much as several entries.
  static constexpr int64_t kLongRow = 16;

  Vector results[kChains][kVectors];
  Vector places[kChains][kVectors];  // index from the row's first entry; -1: none

  CPUACCEL_INLINE bool add(const Tile& tile, int64_t e, int64_t begin, int chain) {
    const auto column = static_cast<uint64_t>(tile.col[e]);  // negative columns become large
    if (column >= tile.N) [[unlikely]] {
      return false;
    }
    tile.template ask_for_row<kVectors>(e);
    const Element* src = tile.src + static_cast<int64_t>(column) * tile.stride;
    Number number = tile.value(e);
    if constexpr (kOp != Op::sum) {
      number *= tile.sign;
    }
    const Vector value = V::set1(number);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      Vector x;
      if constexpr (kMasked) {
        x = V::load(src, tile.mask);
      } else {
        x = V::load(src + tile.template offset<kVectors>(j));
      }
      Vector& result = results[chain][j];
      if constexpr (kOp == Op::sum) {
        result = V::fma(value, x, result);
      } else {
        const Vector product = V::multiply(value, x);
        const auto taken = V::larger_or_nan(product, result);
        result = V::select(taken, product, result);
        if constexpr (kOp == Op::largest_arg) {
          Vector& place = places[chain][j];
          place = V::select(taken, V::set1(static_cast<Number>(e - begin)), place);
        }
      }
    }
    return true;
  }

  // Reduces entries [begin, end) into results[0].
  CPUACCEL_INLINE bool over(const Tile& tile, int64_t begin, int64_t end) {
    constexpr auto kInfinity = static_cast<Number>(__builtin_inff());
    // Unrolled, as all loops over these arrays: an array indexed by a variable stays in memory.
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        results[chain][j] = V::set1(kOp == Op::sum ? 0 : -kInfinity);
        places[chain][j] = V::set1(-1);
      }
    }
    const bool chained = kChains > 1 && end - begin >= kLongRow;
    int64_t e = begin;
    for (; chained && e + kChains <= end; e += kChains) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) {
        if (!add(tile, e + chain, begin, chain)) {
          return false;
        }
      }
    }
    for (; e < end; ++e) {
      if (!add(tile, e, begin, 0)) {
        return false;
      }
    }
    if constexpr (kChains > 1) {
      if (chained) {
#pragma GCC unroll 2
        for (int chain = kChains / 2; chain < kChains; ++chain) {
#pragma GCC unroll 2
          for (int j = 0; j < kVectors; ++j) {
            join(chain - kChains / 2, chain, j);
          }
        }
        if constexpr (kChains == 4) {
#pragma GCC unroll 2
          for (int j = 0; j < kVectors; ++j) {
            join(0, 1, j);
          }
        }
      }
    }
    return true;
  }

  // Joins two chains into the first. The result is that of one sequential chain: the first of equal
  // numbers is kept, and the last NaN.
  CPUACCEL_INLINE void join(int chain, int other, int j) {
    Vector &a = results[chain][j], b = results[other][j];
    if constexpr (kOp == Op::sum) {
      a = V::add(a, b);
      return;
    }
    const auto taken = V::larger_or_nan(b, a);
    if constexpr (kOp == Op::largest_arg) {
      Vector &first = places[chain][j], second = places[other][j];
      const auto behind = V::larger_or_nan(first, second);
      const Vector earlier = V::select(behind, second, first);
      const Vector later = V::select(behind, first, second);
      const Vector of_nan = V::select(V::larger_or_nan(b, b), later, first);
      Vector place = V::select(taken, second, first);
      place = V::select(V::equal(a, b), earlier, place);
      first = V::select(V::larger_or_nan(a, a), of_nan, place);
    }
    a = V::select(taken, b, a);
  }

  template <typename Arg>
  CPUACCEL_INLINE void store_places(const Tile& tile, Arg* arg, int64_t begin, int64_t none) const {
    alignas(64) Number numbers[V::kLanes];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      V::store_numbers(numbers, places[0][j]);
      Arg* at = arg + tile.template offset<kVectors>(j);
      const int64_t count = kMasked ? tile.columns : V::kLanes;
      for (int64_t i = 0; i < count; ++i) {
        const auto place = static_cast<int32_t>(numbers[i]);
        at[i] = static_cast<Arg>(place < 0 ? none : begin + place);
      }
    }
  }

  CPUACCEL_INLINE static bool whole_row(const SpmmCall& call, const Tile& tile, int64_t m) {
    const auto* crow = call.csr.crow_as<Index>();
    const int64_t begin = crow[m], end = crow[m + 1];
    SpmmRun run;
    if (!run.over(tile, begin, end)) {
      return false;
    }
    auto* dst = static_cast<Element*>(call.dst) + m * call.K + tile.k;
    for (int j = 0; j < kVectors; ++j) {
      Vector v = run.results[0][j];
      if constexpr (kOp != Op::sum) {
        v = begin == end ? V::set1(0) : V::multiply(v, V::set1(tile.sign));
      } else if (call.reduce == Reduce::mean) {
        v = V::divide(v, V::set1(static_cast<Number>(begin == end ? 1 : end - begin)));
      }
      if constexpr (kMasked) {
        V::store(dst, v, tile.mask);
      } else {
        V::store(dst + tile.template offset<kVectors>(j), v);
      }
    }
    if constexpr (kOp == Op::largest_arg) {
      auto* arg = static_cast<Index*>(call.arg) + m * call.K + tile.k;
      run.store_places(tile, arg, begin, call.csr.nnz);
    }
    return true;
  }

  CPUACCEL_INLINE static bool part_of_row(const SpmmCall& call, const SpmmWork& work,
                                          const Tile& tile) {
    SpmmRun run;
    if (!run.over(tile, work.begin, work.end)) {
      return false;
    }
    alignas(64) Number numbers[V::kLanes];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      V::store_numbers(numbers, run.results[0][j]);
      auto* partial =
          static_cast<Number*>(work.partial) + tile.k + tile.template offset<kVectors>(j);
      const int64_t count = kMasked ? tile.columns : V::kLanes;
      for (int64_t i = 0; i < count; ++i) {
        partial[i] = numbers[i];
      }
    }
    if constexpr (kOp == Op::largest_arg) {
      run.store_places(tile, work.partial_arg + tile.k, work.begin, call.csr.nnz);
    }
    return true;
  }

  static bool run(const SpmmCall& call, const SpmmWork& work, const Tile& from) {
    const Tile tile = from;
    if (work.partial != nullptr) {
      return part_of_row(call, work, tile);
    }
    for (int64_t m = work.row; m < work.row + work.rows; ++m) {
      if (!whole_row(call, tile, m)) {
        return false;
      }
    }
    return true;
  }
};

// Calls the run for as many vectors as tile.columns need, 1 to kMostVectors.
template <typename V, typename Index, Op kOp, int... kLess>
bool run_tile(const SpmmCall& call, const SpmmWork& work, const SpmmTile<V, Index>& tile,
              std::integer_sequence<int, kLess...> /*counts*/) {
  if (tile.columns < V::kLanes) {
    return SpmmRun<V, Index, kOp, 1, true>::run(call, work, tile);
  }
  using Run = bool (*)(const SpmmCall&, const SpmmWork&, const SpmmTile<V, Index>&);
  static constexpr Run kRuns[] = {&SpmmRun<V, Index, kOp, kLess + 1, false>::run...};
  return kRuns[(tile.columns - 1) / V::kLanes](call, work, tile);
}

// How many entries ahead a row of `bytes` bytes is prefetched: early enough to arrive in time, but
// not so early that it evicts rows that are still needed.
constexpr int64_t entries_ahead(int64_t bytes) {
  constexpr int64_t kBytesAhead = 16384;
  const int64_t entries = kBytesAhead / bytes;
  return entries < 8 ? 8 : entries > 64 ? 64 : entries;
}

template <typename V, typename Index, Op kOp>
bool all_columns(const SpmmCall& call, const SpmmWork& work) {
  using Element = typename V::Element;
  using Number = typename V::Number;
  static constexpr Number kOne = 1;
  constexpr int64_t kNearBytes = 1 << 19;  // bytes of src that fit into L2 besides other data
  constexpr int64_t kMost = kOp == Op::largest_arg && V::kMostVectors > 4 ? 4 : V::kMostVectors;
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  SpmmTile<V, Index> tile{};
  tile.col = call.csr.col_as<Index>();
  tile.N = static_cast<uint64_t>(call.csr.N);
  tile.last_entry = call.csr.nnz - 1;
  tile.values = call.values != nullptr ? call.values : &kOne;
  tile.value_of_entry = call.values != nullptr ? -1 : 0;
  tile.wide_values = call.wide_values || call.values == nullptr;
  tile.sign = call.reduce == Reduce::amin ? -1 : 1;
  tile.stride = call.src_stride;
  for (int64_t k = 0; k < call.K; k += tile.columns) {
    const int64_t left = call.K - k;
    tile.k = k;
    tile.columns = left < kMost * V::kLanes ? left : kMost * V::kLanes;
    tile.src = static_cast<const Element*>(call.src) + k;
    tile.mask = V::mask(tile.columns < V::kLanes ? tile.columns : V::kLanes);
    const int64_t bytes = tile.columns * kSize;
    // N * bytes may overflow; N alone does not.
    tile.ahead = call.csr.N > kNearBytes / bytes ? entries_ahead(bytes) : 0;
    tile.ragged =
        (reinterpret_cast<uintptr_t>(tile.src) | static_cast<uint64_t>(call.src_stride) * kSize) %
            kLine !=
        0;
    if (!run_tile<V, Index, kOp>(call, work, tile,
                                 std::make_integer_sequence<int, static_cast<int>(kMost)>())) {
      return false;
    }
  }
  return true;
}

template <typename V, typename Index>
bool by_op(const SpmmCall& call, const SpmmWork& work) {
  if (call.reduce == Reduce::sum || call.reduce == Reduce::mean) {
    return all_columns<V, Index, Op::sum>(call, work);
  }
  return call.arg != nullptr ? all_columns<V, Index, Op::largest_arg>(call, work)
                             : all_columns<V, Index, Op::largest>(call, work);
}

template <typename V>
bool by_index(const SpmmCall& call, const SpmmWork& work) {
  return call.csr.wide ? by_op<V, int64_t>(call, work) : by_op<V, int32_t>(call, work);
}

// Uses the first of these vector types that K columns fill; the last one accepts any number.
template <typename V, typename... Narrower>
bool by_width(const SpmmCall& call, const SpmmWork& work) {
  if constexpr (sizeof...(Narrower) > 0) {
    if (call.K < V::kLanes) {
      return by_width<Narrower...>(call, work);
    }
  }
  return by_index<V>(call, work);
}

}  // namespace
}  // namespace cpuaccel::kernels
