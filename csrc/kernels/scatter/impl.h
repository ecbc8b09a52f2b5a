// Loops of the scatter kernels, templated on a vector type V along the columns. Included by ISA
// files. V is described in spmm/impl.h: its Elements are the terms, its Numbers the results.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/inline.h"
#include "kernels/scatter/loop.h"
#include "kernels/scatter/scatter.h"
#include "kernels/scatter/sorted.h"

namespace cpuaccel::kernels {
namespace {

// The operands of some columns. Copied into registers by each run.
template <typename V, typename Index>
struct ScatterTile {
  using Element = typename V::Element;
  using Number = typename V::Number;

  const Index* index;
  int64_t E;
  const Element* src;     // at the first column
  Number* dst;            // at the first column of the first row
  const Number* value;    // likewise; only for ties
  Number sign, nan_ties;  // as in ScatterStep
  int64_t src_stride, dst_stride;
  int64_t row, columns;
  uint64_t rows;
  int64_t ahead;  // in entries; 0 if dst is in a near cache

  CPUACCEL_INLINE uint64_t row_of(int64_t e) const {
    return static_cast<uint64_t>(index[e]) - static_cast<uint64_t>(row);
  }
};

template <typename V, typename Index, ScatterLoop kLoop, int kVectors>
struct ScatterRun {
  using Tile = ScatterTile<V, Index>;
  using Element = typename V::Element;
  using Number = typename V::Number;
  using Vector = typename V::Vector;
  static constexpr int kLine = 64;
  static constexpr int64_t kBlock = 512;

  CPUACCEL_INLINE static void add(const Tile& tile, int64_t e, int64_t row) {
    const Element* src = tile.src + e * tile.src_stride;
    Number* dst = tile.dst + row * tile.dst_stride;
    const ScatterStep<V, kLoop> step{tile.sign, tile.nan_ties};
    Vector results[kVectors];
    // All loads come before the stores: where the last vector overlaps, both write the same result.
    for (int j = 0; j < kVectors; ++j) {
      const int64_t at = scatter_offset<V, kVectors>(tile.columns, j);
      const Vector before = V::load_numbers(dst + at), x = V::load(src + at);
      const Vector value =
          kLoop == ScatterLoop::ties ? V::load_numbers(tile.value + row * tile.dst_stride + at) : x;
      results[j] = step(before, x, value);
    }
    for (int j = 0; j < kVectors; ++j) {
      V::store_numbers(dst + scatter_offset<V, kVectors>(tile.columns, j), results[j]);
    }
  }

  // Prefetches a row by integer address, not by pointer, because the row may be invalid.
  CPUACCEL_INLINE static void ask_for(const Tile& tile, uint64_t row) {
    constexpr int kBytes = kVectors * static_cast<int>(V::kLanes * sizeof(Number));
    const uint64_t offset = row * static_cast<uint64_t>(tile.dst_stride) * sizeof(Number);
    const auto dst = reinterpret_cast<uintptr_t>(tile.dst) + offset;
    const auto value = reinterpret_cast<uintptr_t>(tile.value) + offset;
    for (int line = 0; line < kBytes; line += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(dst + line), 1);  // NOLINT: never read
      if constexpr (kLoop == ScatterLoop::ties) {
        __builtin_prefetch(reinterpret_cast<const void*>(value + line));  // NOLINT: likewise
      }
    }
  }

  // For a thread that owns all or nearly all rows: adds each entry as it is read.
  static void all_rows(const Tile& tile) {
    const int64_t last = tile.E - 1;
    for (int64_t e = 0; e < tile.E; ++e) {
      if (tile.ahead > 0) {
        ask_for(tile, tile.row_of(e + tile.ahead < last ? e + tile.ahead : last));
      }
      if (const uint64_t row = tile.row_of(e); row < tile.rows) [[likely]] {
        add(tile, e, static_cast<int64_t>(row));
      }
    }
  }

  // For a thread that owns some rows: finds its entries a block at a time, without an unpredictable
  // branch.
  static void some_rows(const Tile& tile) {
    int32_t mine[kBlock];
    for (int64_t begin = 0; begin < tile.E; begin += kBlock) {
      const int64_t end = begin + kBlock < tile.E ? begin + kBlock : tile.E;
      int64_t count = 0;
      for (int64_t e = begin; e < end; ++e) {
        mine[count] = static_cast<int32_t>(e - begin);
        count += tile.row_of(e) < tile.rows ? 1 : 0;
      }
      for (int64_t i = 0; i < count; ++i) {
        if (tile.ahead > 0) {
          const int64_t later = i + tile.ahead < count ? i + tile.ahead : count - 1;
          ask_for(tile, tile.row_of(begin + mine[later]));
        }
        const int64_t e = begin + mine[i];
        if (const uint64_t row = tile.row_of(e); row < tile.rows) [[likely]] {
          add(tile, e, static_cast<int64_t>(row));
        }
      }
    }
  }

  static void run(const Tile& from, bool all) {
    const Tile tile = from;
    if (all) {
      all_rows(tile);
    } else {
      some_rows(tile);
    }
  }
};

template <typename V, typename Index, ScatterLoop kLoop, int... kLess>
void run_scatter_tile(const ScatterTile<V, Index>& tile, bool all,
                      std::integer_sequence<int, kLess...> /*counts*/) {
  using Run = void (*)(const ScatterTile<V, Index>&, bool);
  static constexpr Run kRuns[] = {&ScatterRun<V, Index, kLoop, kLess + 1>::run...};
  kRuns[(tile.columns - 1) / V::kLanes](tile, all);
}

template <typename V, typename Index, ScatterLoop kLoop>
void scatter_columns(const ScatterCall& call, const ScatterWork& work) {
  using Element = typename V::Element;
  using Number = typename V::Number;
  constexpr int64_t kNearBytes = 1 << 18;  // bytes of dst that fit into L2 besides other data
  constexpr int64_t kMostVectors = most_scatter_vectors<V, kLoop>();
  constexpr int64_t kAhead = 16;
  ScatterTile<V, Index> tile{};
  tile.index = call.index_as<Index>();
  tile.E = call.E;
  tile.nan_ties = static_cast<Number>(call.nan_ties);
  tile.sign = call.op == ScatterOp::amin ? -1 : 1;
  tile.src_stride = call.src_stride;
  tile.dst_stride = call.dst_stride;
  tile.row = work.row;
  tile.rows = static_cast<uint64_t>(work.rows);
  for (int64_t done = 0; done < work.columns; done += tile.columns) {
    const int64_t columns = scatter_tile_columns<V>(work.columns - done, kMostVectors * V::kLanes);
    const int64_t k = work.k + done;
    tile.columns = columns;
    tile.src = static_cast<const Element*>(call.src) + k;
    tile.dst = static_cast<Number*>(call.dst) + work.row * call.dst_stride + k;
    if constexpr (kLoop == ScatterLoop::ties) {
      tile.value = static_cast<const Number*>(call.value) + work.row * call.dst_stride + k;
    }
    const auto bytes = columns * static_cast<int64_t>(sizeof(Number));
    // rows * bytes may overflow; rows alone does not.
    tile.ahead = work.rows > kNearBytes / bytes ? kAhead : 0;
    run_scatter_tile<V, Index, kLoop>(
        tile, work.rows == call.N,
        std::make_integer_sequence<int, static_cast<int>(kMostVectors)>());
  }
}

template <typename V, typename Index>
void scatter_by_op(const ScatterCall& call, const ScatterWork& work) {
  with_scatter_loop<V>(call.op, [&](auto loop) { scatter_columns<V, Index, loop>(call, work); });
}

// Uses the first of these vector types that the columns fill; the last one accepts any number.
template <typename V, typename... Narrower>
void scatter_by_width(const ScatterCall& call, const ScatterWork& work) {
  if (call.order != nullptr) {
    scatter_sorted<V>(call, work);  // rows are long
    return;
  }
  if constexpr (sizeof...(Narrower) > 0) {
    if (work.columns < V::kLanes) {
      scatter_by_width<Narrower...>(call, work);
      return;
    }
  }
  if (call.wide) {
    scatter_by_op<V, int64_t>(call, work);
  } else {
    scatter_by_op<V, int32_t>(call, work);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
