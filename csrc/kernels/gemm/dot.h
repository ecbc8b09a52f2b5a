// gemm by dot products of rows of A with rows of B transposed, both read in place. For few rows of
// A, where packing B would cost as much as the products. Included by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/dot_loop.h"
#include "kernels/gemm/dot_one_row.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/prefetch.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, typename E, int kRows, int kColumns>
void dot_tile(const DotCall& call, int64_t row, int64_t column, const ReadAhead& ahead) {
  using Vector = typename V::Vector;
  constexpr int kSums = V::DotTiles::template kSums<kRows>;
  Vector sums[kSums][kRows][kColumns];
  const float* a[kRows];
  const typename E::Element* b[kColumns];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    a[i] = call.a + (row + i) * call.a_stride;
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      CPUACCEL_UNROLL
      for (int s = 0; s < kSums; ++s) {
        sums[s][i][j] = V::zero();
      }
    }
  }
  CPUACCEL_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    b[j] = static_cast<const typename E::Element*>(call.b) + (column + j) * call.b_stride;
  }
  constexpr bool kAsksAhead = V::DotTiles::kInTurn > 0;
  int64_t k = 0;
  for (; k + kSums * V::kLanes <= call.k; k += kSums * V::kLanes) {
    CPUACCEL_UNROLL
    for (int s = 0; s < kSums; ++s) {
      Vector values[kColumns];
      CPUACCEL_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const auto* from = b[j] + k + s * V::kLanes;
        if (kAsksAhead && s * V::kLanes * sizeof(*from) % 64 == 0) {
          ahead.ask(from);
        }
        values[j] = E::load(from);
      }
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const Vector value = V::load(a[i] + k + s * V::kLanes);
        CPUACCEL_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          V::accumulate(sums[s][i][j], value, values[j]);
        }
      }
    }
  }
  for (; k < call.k; k += V::kLanes) {
    const int64_t count = call.k - k < V::kLanes ? call.k - k : V::kLanes;
    Vector values[kColumns];
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      values[j] = E::load(b[j] + k, count);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vector value = V::load(a[i] + k, V::mask(count));
      CPUACCEL_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        V::accumulate(sums[0][i][j], value, values[j]);
      }
    }
  }
  constexpr int kCount = kRows * kColumns;
  constexpr int kPadded = (kCount + 3) / 4 * 4;
  Vector all[kPadded];
  CPUACCEL_UNROLL
  for (int i = 0; i < kPadded; ++i) {
    all[i] = V::zero();
    if (i < kCount) {
      all[i] = sums[0][i / kColumns][i % kColumns];
      CPUACCEL_UNROLL
      for (int s = 1; s < kSums; ++s) {
        all[i] = V::add(all[i], sums[s][i / kColumns][i % kColumns]);
      }
    }
  }
  alignas(16) float results[kPadded];
  CPUACCEL_UNROLL
  for (int i = 0; i < kPadded; i += 4) {
    V::store_sums(results + i, all[i], all[i + 1], all[i + 2], all[i + 3]);
  }
  float* c = call.c + row * call.c_row + column * call.c_column;
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      float& to = c[i * call.c_row + j * call.c_column];
      to = (call.add ? to : 0.0f) + call.alpha * results[i * kColumns + j];
    }
  }
}

template <typename V, typename E, int kRows, int kColumns>
CPUACCEL_INLINE void dot_tail(const DotCall& call, int64_t row, int64_t column,
                              const ReadAhead& ahead) {
  if constexpr (kColumns > 0) {
    if (call.n - column == kColumns) {
      dot_tile<V, E, kRows, kColumns>(call, row, column, ahead);
    } else {
      dot_tail<V, E, kRows, kColumns - 1>(call, row, column, ahead);
    }
  }
}

template <typename V, typename E, int kRows>
void dot_rows(const DotCall& call, int64_t row, PrefetchWalk& prefetch) {
  if constexpr (kRows == 1 && V::DotTiles::kInTurn > 0) {
    if (dot_one_row<V, E>(call, row)) {
      return;
    }
  }
  constexpr int kColumns = V::DotTiles::template kColumns<kRows>;
  ReadAhead ahead = kReadAheadOfNothing;
  if constexpr (V::DotTiles::kInTurn > 0) {
    if (call.next.rows == 0) {
      constexpr int64_t kElement = sizeof(typename E::Element);
      ahead = read_ahead_of_rows(call.k * kElement, call.b_stride * kElement, kColumns);
    }
  }
  int64_t column = 0;
  for (; column + kColumns <= call.n; column += kColumns) {
    prefetch();
    dot_tile<V, E, kRows, kColumns>(call, row, column, ahead);
  }
  dot_tail<V, E, kRows, kColumns - 1>(call, row, column, ahead);
}

template <typename V, typename E>
struct DotElements {
  using Tiles = typename V::DotTiles;
  template <int kRows>
  CPUACCEL_INLINE static void rows(const DotCall& call, int64_t row, PrefetchWalk& prefetch) {
    dot_rows<V, E, kRows>(call, row, prefetch);
  }
};

template <typename V, typename E>
void dot_elements(const DotCall& call) {
  dot_evenly<DotElements<V, E>>(call);
}

template <typename V>
void dots(const DotCall& call) {
  switch (call.type) {
    case DataType::f32:
      return dot_elements<V, typename V::F32>(call);
    case DataType::bf16:
      return dot_elements<V, typename V::Bf16>(call);
    case DataType::f16:
      return dot_elements<V, typename V::F16>(call);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
