// Rows of B, each times a value of A, added to a row of C that stays in L1: for few rows of A and B
// by rows, read once and as it lies in memory. Included by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Rows of B that are added at once: up to 12 values of A in registers.
template <int kRows>
constexpr int kRowsDepth = kRows == 1 ? 8 : 12 / kRows;

template <typename V, typename E, int kRows, int kDepth>
void add_rows(const RowsCall& call, int64_t k) {
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
  // 8 KiB further on, in rows to come: of short rows several at once.
  constexpr int64_t kAhead = 8192 / sizeof(typename E::Element);
  const int64_t ahead = (kAhead / kDepth / call.n + 1) * kDepth * call.b_stride;
  int64_t n = 0;
  for (; n + V::kLanes <= call.n; n += V::kLanes) {
    Vector values[kDepth];
    CPUACCEL_UNROLL
    for (int l = 0; l < kDepth; ++l) {
      if constexpr (V::DotTiles::kInTurn > 0) {
        __builtin_prefetch(b[l] + n + ahead);
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
  int64_t k = 0;
  for (; k + kDepth <= call.k; k += kDepth) {
    add_rows<V, E, kRows, kDepth>(call, k);
  }
  for (; k < call.k; ++k) {
    add_rows<V, E, kRows, 1>(call, k);
  }
}

template <typename V, typename E>
void rows_elements(const RowsCall& call) {
  switch (call.m) {
    case 1:
      return rows_of<V, E, 1>(call);
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
    case GemmType::f32:
      return rows_elements<V, typename V::F32>(call);
    case GemmType::bf16:
      return rows_elements<V, typename V::Bf16>(call);
    case GemmType::f16:
      return rows_elements<V, typename V::F16>(call);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
