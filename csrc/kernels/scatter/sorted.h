// Loops of the scatter kernels over entries sorted by dst row, templated on a vector type V as in
// impl.h, which includes this file.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/scatter/loop.h"
#include "kernels/scatter/scatter.h"

namespace cpuaccel::kernels {
namespace {

// Some columns of a row of dst, and the entries that go to it.
template <typename V>
struct ScatterRowTile {
  using Element = typename V::Element;
  using Number = typename V::Number;

  const Element* src;  // at the first column
  Number* dst;         // likewise
  const Number* value;
  const int32_t* entries;
  int64_t count, following;  // entries of this row; entries behind, to prefetch
  int64_t src_stride, columns;
  const Number* start;  // replaces dst if not null
  Number terms;         // divisor of a sum
  Number sign, nan_ties;
};

template <typename V, ScatterLoop kLoop, int kVectors>
void scatter_row(const ScatterRowTile<V>& from) {
  using Vector = typename V::Vector;
  constexpr int64_t kAhead = 4, kLine = 64;
  constexpr auto kBytes = static_cast<int64_t>(kVectors * V::kLanes * sizeof(typename V::Element));
  const ScatterRowTile<V> tile = from;
  const ScatterStep<V, kLoop> step{tile.sign, tile.nan_ties};
  const auto offset = [&](int j) { return scatter_offset<V, kVectors>(tile.columns, j); };
  Vector results[kVectors], values[kVectors];
  for (int j = 0; j < kVectors; ++j) {
    results[j] =
        tile.start != nullptr ? V::set1(*tile.start) : V::load_numbers(tile.dst + offset(j));
    values[j] = kLoop == ScatterLoop::ties ? V::load_numbers(tile.value + offset(j)) : results[j];
  }
  const int64_t last = tile.count + tile.following - 1;
  for (int64_t i = 0; i < tile.count; ++i) {
    const auto* next = reinterpret_cast<const char*>(
        tile.src + tile.entries[i + kAhead < last ? i + kAhead : last] * tile.src_stride);
    for (int64_t line = 0; line < kBytes; line += kLine) {
      __builtin_prefetch(next + line);
    }
    const auto* src = tile.src + tile.entries[i] * tile.src_stride;
    for (int j = 0; j < kVectors; ++j) {
      results[j] = step(results[j], V::load(src + offset(j)), values[j]);
    }
  }
  if (kLoop == ScatterLoop::sum && tile.terms > 1) {
    for (auto& result : results) {
      result = V::divide(result, V::set1(tile.terms));
    }
  }
  for (int j = 0; j < kVectors; ++j) {
    V::store_numbers(tile.dst + offset(j), results[j]);
  }
}

template <typename V, ScatterLoop kLoop, int... kLess>
void run_scatter_row(const ScatterRowTile<V>& tile,
                     std::integer_sequence<int, kLess...> /*counts*/) {
  using Run = void (*)(const ScatterRowTile<V>&);
  static constexpr Run kRuns[] = {&scatter_row<V, kLoop, kLess + 1>...};
  kRuns[(tile.columns - 1) / V::kLanes](tile);
}

template <typename V, ScatterLoop kLoop>
void scatter_sorted_rows(const ScatterCall& call, const ScatterWork& work) {
  using Number = typename V::Number;
  constexpr int64_t kMostVectors = most_scatter_vectors<V, kLoop>();
  const ScatterOrder& order = *call.order;
  const auto start = static_cast<Number>(order.start);
  ScatterRowTile<V> tile{};
  tile.src_stride = call.src_stride;
  tile.start = order.include_dst ? nullptr : &start;
  tile.sign = call.op == ScatterOp::amin ? -1 : 1;
  tile.nan_ties = static_cast<Number>(call.nan_ties);
  const int64_t end = order.begins[work.row + work.rows];
  for (int64_t n = work.row; n < work.row + work.rows; ++n) {
    const int64_t first = order.begins[n];
    tile.count = order.begins[n + 1] - first;
    if (tile.count == 0) {
      continue;
    }
    tile.entries = order.entries + first;
    tile.following = end - first - tile.count;
    tile.terms = order.mean ? static_cast<Number>(tile.count + (order.include_dst ? 1 : 0)) : 1;
    for (int64_t k = 0; k < call.K; k += tile.columns) {
      tile.columns = scatter_tile_columns<V>(call.K - k, kMostVectors * V::kLanes);
      tile.src = static_cast<const typename V::Element*>(call.src) + k;
      tile.dst = static_cast<Number*>(call.dst) + n * call.dst_stride + k;
      if constexpr (kLoop == ScatterLoop::ties) {
        tile.value = static_cast<const Number*>(call.value) + n * call.dst_stride + k;
      }
      run_scatter_row<V, kLoop>(tile,
                                std::make_integer_sequence<int, static_cast<int>(kMostVectors)>());
    }
  }
}

template <typename V>
void scatter_sorted(const ScatterCall& call, const ScatterWork& work) {
  with_scatter_loop<V>(call.op, [&](auto loop) { scatter_sorted_rows<V, loop>(call, work); });
}

}  // namespace
}  // namespace cpuaccel::kernels
