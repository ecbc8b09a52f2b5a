// gemm's innermost loop (microkernel): some rows of A times a panel of B, all sums in registers.
// Included by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/prefetch.h"
#include "kernels/gemm/start.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/spread_prefetch.h"

namespace cpuaccel::kernels {
namespace {

// Steps of k per iteration of the loop. With four, what is beside the products took 3 % of the time
// in AVX2 instructions (Emerald Rapids).
constexpr int kSteps = 8;

// One step of k. Rows are addressed relative to every kRowsToBase-th row. With few registers that
// is every third row, at 0, 1 and 2 strides, which one address can express.
template <typename V, typename E, int kRows, int kVectors, int kBases>
CPUACCEL_INLINE void tile_step(typename V::Vector (&sums)[kRows][kVectors],
                               const float* (&a)[kBases], int64_t& a_stride,
                               const typename E::Element*& panel, int k) {
  typename V::Vector b[kVectors];
  CPUACCEL_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    b[j] = E::load(panel + k * V::kVectors * V::kLanes + j * V::kLanes);
  }
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    const auto value = V::broadcast(a[i / V::kRowsToBase] + i % V::kRowsToBase * a_stride + k);
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      V::accumulate(sums[i][j], value, b[j]);
    }
  }
  // Tells the compiler that these may change here. Otherwise it loads ahead for several steps and
  // keeps a sum of strides for each row and step, for which it lacks registers.
  asm volatile("" : "+r"(panel));
  if constexpr (V::kRowsToBase > 1) {
    asm volatile("" : "+r"(a_stride));
  }
  CPUACCEL_UNROLL
  for (int i = 0; i < kBases; ++i) {
    asm volatile("" : "+r"(a[i]));
  }
}

// Each of an element's kSets sums takes every kSets-th step. With few rows and one sum, each step
// would wait for the one before it.
template <typename V, typename E, int kRows, int kVectors>
void tile(const TileCall& call, int64_t row, const SpreadPrefetch& asked) {
  using Vector = typename V::Vector;
  constexpr int kBases = (kRows + V::kRowsToBase - 1) / V::kRowsToBase;
  constexpr int kSets = V::template kSets<kRows>;
  static_assert(kSteps % kSets == 0);
  SpreadPrefetch ahead = asked;
  Vector sums[kSets][kRows][kVectors];
  float* c = call.c + row * call.c_stride;
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      __builtin_prefetch(c + i * call.c_stride + j * V::kLanes, 1);
      CPUACCEL_UNROLL
      for (int s = 0; s < kSets; ++s) {
        sums[s][i][j] = V::zero();
      }
    }
  }
  int64_t a_stride = call.a_stride;
  const float* a[kBases];
  CPUACCEL_UNROLL
  for (int i = 0; i < kBases; ++i) {
    a[i] = call.a + (row + V::kRowsToBase * i) * a_stride;
  }
  const auto* panel = static_cast<const typename E::Element*>(call.panel);
  for (int64_t left = call.k / kSteps; left > 0; --left) {
    ahead.ask();
    CPUACCEL_UNROLL
    for (int k = 0; k < kSteps; ++k) {
      tile_step<V, E, kRows, kVectors, kBases>(sums[k % kSets], a, a_stride, panel, k);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kBases; ++i) {
      a[i] += kSteps;
    }
    panel += kSteps * V::kVectors * V::kLanes;
  }
  for (int64_t left = call.k % kSteps; left > 0; --left) {
    tile_step<V, E, kRows, kVectors, kBases>(sums[0], a, a_stride, panel, 0);
    CPUACCEL_UNROLL
    for (int i = 0; i < kBases; ++i) {
      ++a[i];
    }
    panel += V::kVectors * V::kLanes;
  }
  const Vector alpha = V::set1(call.alpha);
  const bool whole = call.n == kVectors * V::kLanes;
  const auto mask = V::mask(call.n - (kVectors - 1) * V::kLanes);
  const GemmStart from = with_zeros(call.from);
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      Vector sum = sums[0][i][j];
      CPUACCEL_UNROLL
      for (int s = 1; s < kSets; ++s) {
        sum = V::add(sum, sums[s][i][j]);
      }
      float* to = c + j * V::kLanes;
      if (whole || j < kVectors - 1) {
        V::store(to, V::fma(alpha, sum, start_of<V>(from, row + i, j * V::kLanes)));
      } else {
        V::store(to, V::fma(alpha, sum, start_of<V>(from, row + i, j * V::kLanes, mask)), mask);
      }
    }
    c += call.c_stride;
  }
}

using TileRows = void(const TileCall& call, int64_t row, const SpreadPrefetch& asked);

template <typename V, typename E, int kVectors, int kRows>
CPUACCEL_INLINE TileRows* rows_function(int64_t rows) {
  if constexpr (kRows == 1) {
    return tile<V, E, 1, kVectors>;
  } else {
    return rows == kRows ? tile<V, E, kRows, kVectors>
                         : rows_function<V, E, kVectors, kRows - 1>(rows);
  }
}

// The function for `rows` rows, as narrow as `columns` allow.
template <typename V, typename E, int kVectors>
CPUACCEL_INLINE TileRows* tile_function(int64_t columns, int64_t rows) {
  if constexpr (kVectors > 1) {
    if (columns <= (kVectors - 1) * V::kLanes) {
      return tile_function<V, E, kVectors - 1>(columns, rows);
    }
  }
  return rows_function<V, E, kVectors, V::kRows>(rows);
}

// Splits rows evenly: 7 rows are 4 and 3, not 6 and 1, where the 1 would wait for its sums.
template <typename V, typename E>
void tiles_of(const TileCall& call) {
  const int64_t count = (call.m + V::kRows - 1) / V::kRows;
  const int64_t least = call.m / count;
  const int64_t larger = call.m % count;
  const auto function = [n = call.n](int64_t rows) {
    return tile_function<V, E, V::kVectors>(n, rows);
  };
  TileRows* const small = function(least);
  TileRows* const large = larger == 0 ? small : function(least + 1);
  // A single run of lines is prefetched within tiles.
  const bool is_run = call.next.rows == 1;
  PrefetchWalk prefetch(is_run ? GemmPrefetch{} : call.next, count);
  SpreadPrefetchLoops ahead(call.next.data, is_run ? call.next.bytes : 0, call.k / kSteps, count);
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i) {
    prefetch();
    (i < larger ? large : small)(call, row, ahead.next());
    row += i < larger ? least + 1 : least;
  }
}

template <typename V>
void tiles(const TileCall& call) {
  switch (call.type) {
    case DataType::f32:
      return tiles_of<V, typename V::F32>(call);
    case DataType::bf16:
      return tiles_of<V, typename V::Bf16>(call);
    case DataType::f16:
      return tiles_of<V, typename V::F16>(call);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
