// gemm for few rows of A and row-major B: rows of B, times values of A, are added to rows of C that
// stay in L1. B is read once, in place. Included by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

// Rows of B that are added at once, with up to 12 values of A in registers.
template <int kRows>
constexpr int kRowsDepth = kRows == 1 ? 8 : 12 / kRows;

template <typename E>
CPUACCEL_INLINE ReadAhead rows_ahead(const RowsCall& call, int64_t together) {
  constexpr int64_t kElement = sizeof(typename E::Element);
  return read_ahead_of_rows(call.n * kElement, call.b_stride * kElement, together);
}

template <typename V, typename E, int kRows, int kDepth>
void add_rows(const RowsCall& call, int64_t k, const ReadAhead& ahead) {
  using Vector = typename V::Vector;
  Vector a[kRows][kDepth];
  const typename E::Element* b[kDepth];
  CPUACCEL_UNROLL
  for (int l = 0; l < kDepth; ++l) {
    b[l] = static_cast<const typename E::Element*>(call.b) + (k + l) * call.b_stride;
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      a[i][l] = V::set1(call.alpha * call.a[i * call.a_stride + k + l]);
    }
  }
  int64_t n = 0;
  for (; n + V::kLanes <= call.n; n += V::kLanes) {
    Vector values[kDepth];
    CPUACCEL_UNROLL
    for (int l = 0; l < kDepth; ++l) {
      if constexpr (V::DotTiles::kInTurn > 0) {
        ahead.ask(b[l] + n);
      }
      values[l] = E::load(b[l] + n);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      Vector sum = V::load(call.c + i * call.c_stride + n);
      CPUACCEL_UNROLL
      for (int l = 0; l < kDepth; ++l) {
        sum = V::fma(a[i][l], values[l], sum);
      }
      V::store(call.c + i * call.c_stride + n, sum);
    }
  }
  if (n < call.n) {
    const auto mask = V::mask(call.n - n);
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      Vector sum = V::load(call.c + i * call.c_stride + n, mask);
      CPUACCEL_UNROLL
      for (int l = 0; l < kDepth; ++l) {
        sum = V::fma(a[i][l], E::load(b[l] + n, call.n - n), sum);
      }
      V::store(call.c + i * call.c_stride + n, sum, mask);
    }
  }
}

template <typename V, typename E, int kRows>
void rows_of(const RowsCall& call) {
  constexpr int kDepth = kRowsDepth<kRows>;
  ReadAhead ahead = kReadAheadOfNothing;
  if constexpr (V::DotTiles::kInTurn > 0) {
    ahead = rows_ahead<E>(call, kDepth);
  }
  int64_t k = 0;
  for (; k + kDepth <= call.k; k += kDepth) {
    add_rows<V, E, kRows, kDepth>(call, k, ahead);
  }
  for (; k < call.k; ++k) {
    add_rows<V, E, kRows, 1>(call, k, ahead);
  }
}

// For one row of A and few columns: sums stay in registers, and rows of B are read in place, one
// after the other (see dot.h).
template <typename V, typename E, int kVectors>
void narrow_rows(const RowsCall& call) {
  using Vector = typename V::Vector;
  constexpr int kSets = kVectors <= 4 ? 2 : 1;  // enough sums to hide the latency
  constexpr int kLast = kVectors - 1;
  const ReadAhead ahead = rows_ahead<E>(call, 1);
  const auto mask = V::mask(call.n - kLast * V::kLanes);
  const int64_t in_last = call.n - kLast * V::kLanes;
  Vector sums[kSets][kVectors];
  CPUACCEL_UNROLL
  for (int s = 0; s < kSets; ++s) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      sums[s][j] = V::zero();
    }
  }
  const auto* b = static_cast<const typename E::Element*>(call.b);
  const auto add = [&](int64_t k, Vector* to) __attribute__((always_inline)) {
    const Vector a = V::set1(call.alpha * call.a[k]);
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const auto* from = b + j * V::kLanes;
      if (j * V::kLanes * sizeof(*from) % 64 == 0) {
        ahead.ask(from);
      }
      V::accumulate(to[j], a, j < kLast ? E::load(from) : E::load(from, in_last));
    }
    b += call.b_stride;
  };
  int64_t k = 0;
  for (; k + kSets <= call.k; k += kSets) {
    CPUACCEL_UNROLL
    for (int s = 0; s < kSets; ++s) {
      add(k + s, sums[s]);
    }
  }
  for (; k < call.k; ++k) {
    add(k, sums[0]);
  }
  CPUACCEL_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    float* const c = call.c + j * V::kLanes;
    const Vector sum = kSets == 2 ? V::add(sums[0][j], sums[kSets - 1][j]) : sums[0][j];
    if (j < kLast) {
      V::store(c, V::add(V::load(c), sum));
    } else {
      V::store(c, V::add(V::load(c, mask), sum), mask);
    }
  }
}

// Calls narrow_rows with as many vectors as n takes. Returns false, and calls nothing, if there is
// no such instance.
template <typename V, typename E, int kVectors>
bool has_narrow_rows(const RowsCall& call) {
  if constexpr (kVectors > 0) {
    if (call.n > (kVectors - 1) * V::kLanes) {
      narrow_rows<V, E, kVectors>(call);
      return true;
    }
    return has_narrow_rows<V, E, kVectors - 1>(call);
  } else {
    return false;
  }
}

template <typename V, typename E>
void one_row(const RowsCall& call) {
  if constexpr (V::DotTiles::kInTurn > 0) {
    constexpr int kMost = 8;
    if (call.n <= kMost * V::kLanes && has_narrow_rows<V, E, kMost>(call)) {
      return;
    }
  }
  rows_of<V, E, 1>(call);
}

template <typename V, typename E>
void rows_elements(const RowsCall& call) {
  switch (call.m) {
    case 1:
      return one_row<V, E>(call);
    case 2:
      return rows_of<V, E, 2>(call);
    case 3:
      return rows_of<V, E, 3>(call);
    case 4:
      return rows_of<V, E, 4>(call);
    case 5:
      return rows_of<V, E, 5>(call);
    default:
      return rows_of<V, E, int{kRowsMost}>(call);
  }
}

template <typename V>
void rows_times(const RowsCall& call) {
  switch (call.type) {
    case DataType::f32:
      return rows_elements<V, typename V::F32>(call);
    case DataType::bf16:
      return rows_elements<V, typename V::Bf16>(call);
    case DataType::f16:
      return rows_elements<V, typename V::F16>(call);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
