// The dot products of gemm for one row of A, where reading B takes all the time. Included by ISA
// sources only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

// The row of A is read again for each column of B, from L1. A longer row does not stay there beside
// what is read of B. Measured on Zen 4, whose L1 has 32 KiB, in GB/s of one column after another
// and of four at a time: floats by columns of 896 elements 30 and 18, 2048 24 and 22, 8192 19 and
// 26; bf16 by columns of 8192 25 and 24, 11008 19 and 24.
constexpr int64_t kRowInL1 = 12 * 1024;  // bytes

// The sum of kCount vectors, a power of two, added in pairs.
template <typename V, int kCount>
CPUACCEL_INLINE typename V::Vector total(typename V::Vector* sums) {
  if constexpr (kCount == 1) {
    return sums[0];
  } else {
    CPUACCEL_UNROLL
    for (int s = 0; s < kCount / 2; ++s) {
      sums[s] = V::add(sums[s], sums[s + kCount / 2]);
    }
    return total<V, kCount / 2>(sums);
  }
}

// A row of floats.
template <typename V, typename E>
struct FloatRow {
  const float* values;

  CPUACCEL_INLINE void load_two(int64_t k, typename V::Vector (&dst)[2]) const {
    dst[0] = V::load(values + k);
    dst[1] = V::load(values + k + V::kLanes);
  }
  CPUACCEL_INLINE static void load_weights(const typename E::Element* src,
                                           typename V::Vector (&dst)[2]) {
    dst[0] = E::load(src);
    dst[1] = E::load(src + V::kLanes);
  }
  CPUACCEL_INLINE typename V::Vector rest(int64_t k, int64_t count) const {
    return V::load(values + k, V::mask(count));
  }
};

// A row of 16-bit elements, as those of B. It takes half of L1, and two vectors are widened with
// fewer instructions than one after another.
template <typename V, typename E>
struct HalfRow {
  const typename E::Element* values;

  CPUACCEL_INLINE void load_two(int64_t k, typename V::Vector (&dst)[2]) const {
    E::load_two(values + k, dst);
  }
  CPUACCEL_INLINE static void load_weights(const typename E::Element* src,
                                           typename V::Vector (&dst)[2]) {
    E::load_two(src, dst);
  }
  CPUACCEL_INLINE typename V::Vector rest(int64_t k, int64_t count) const {
    return E::load(values + k, count);
  }
};

// The sums of the row times kColumns columns of B, lane by lane.
template <typename V, typename E, int kColumns, int kSums, typename Row>
CPUACCEL_INLINE void dot_columns(const Row& row, const typename E::Element* const* b, int64_t count,
                                 const ReadAhead& ahead, typename V::Vector* results) {
  static_assert(kSums % 2 == 0);
  constexpr int64_t kLine = 64, kBytes = V::kLanes * sizeof(typename E::Element);
  typename V::Vector sums[kColumns][kSums];
  CPUACCEL_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    CPUACCEL_UNROLL
    for (int s = 0; s < kSums; ++s) {
      sums[j][s] = V::zero();
    }
  }
  int64_t k = 0;
  for (; k + kSums * V::kLanes <= count; k += kSums * V::kLanes) {
    CPUACCEL_UNROLL
    for (int s = 0; s < kSums; s += 2) {
      typename V::Vector values[2];
      row.load_two(k + s * V::kLanes, values);
      CPUACCEL_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const auto* from = b[j] + k + s * V::kLanes;
        CPUACCEL_UNROLL
        for (int i = 0; i < 2; ++i) {
          if ((s + i) * kBytes % kLine == 0) {
            ahead.ask(from + i * V::kLanes);
          }
        }
        typename V::Vector weights[2];
        Row::load_weights(from, weights);
        V::accumulate(sums[j][s], values[0], weights[0]);
        V::accumulate(sums[j][s + 1], values[1], weights[1]);
      }
    }
  }
  for (; k < count; k += V::kLanes) {
    const int64_t left = count - k < V::kLanes ? count - k : V::kLanes;
    const typename V::Vector value = row.rest(k, left);
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      V::accumulate(sums[j][0], value, E::load(b[j] + k, left));
    }
  }
  CPUACCEL_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    results[j] = total<V, kSums>(sums[j]);
  }
}

// One column of B after another, so that B is read from front to back. For bf16 in memory, 768
// elements a column, this reads 46 of the 47 GB/s that a core of Zen 5 can read. Four columns at a
// time read 29, and a loop for each of four columns 40, because the hardware prefetcher goes by the
// address of the load instruction. A row that does not stay in L1 is multiplied by four columns at
// a time.
template <typename V, typename E, int kSums, typename Row>
void dot_row(const DotCall& call, const Row& values, float* c) {
  constexpr int kTogether = 4;
  constexpr int64_t kElement = sizeof(typename E::Element);
  const auto* b = static_cast<const typename E::Element*>(call.b);
  const bool is_short = call.k * static_cast<int64_t>(sizeof(*values.values)) <= kRowInL1;
  const ReadAhead ahead = call.b_stride != call.k ? kReadAheadOfNothing
                          : is_short
                              ? read_ahead_of_elements(kElement)
                              : read_ahead_of_rows(call.k * kElement, call.k * kElement, kTogether);
  for (int64_t column = 0; column < call.n; column += kTogether) {
    const int64_t count = call.n - column < kTogether ? call.n - column : kTogether;
    const typename E::Element* columns[kTogether];
    typename V::Vector sums[kTogether];
    CPUACCEL_UNROLL
    for (int j = 0; j < kTogether; ++j) {
      columns[j] = b + (column + (j < count ? j : 0)) * call.b_stride;
      sums[j] = V::zero();
    }
    if (!is_short && count == kTogether) {
      dot_columns<V, E, kTogether, 2>(values, columns, call.k, ahead, sums);
    } else {
#pragma GCC unroll 1
      for (int j = 0; j < count; ++j) {
        dot_columns<V, E, 1, kSums>(values, columns + j, call.k, ahead, sums + j);
      }
    }
    alignas(16) float results[kTogether];
    V::store_sums(results, sums[0], sums[1], sums[2], sums[3]);
    for (int j = 0; j < count; ++j) {
      float& to = c[(column + j) * call.c_column];
      to = (call.add ? to : 0.0f) + call.alpha * results[j];
    }
  }
}

template <typename V, typename E, int kSums>
void dot_row_of_any(const DotCall& call, int64_t row) {
  float* c = call.c + row * call.c_row;
  if constexpr (!std::is_same_v<typename E::Element, float>) {
    if (call.a_halves != nullptr) {
      const auto* halves = static_cast<const typename E::Element*>(call.a_halves);
      return dot_row<V, E, kSums>(call, HalfRow<V, E>{halves + row * call.a_halves_stride}, c);
    }
  }
  dot_row<V, E, kSums>(call, FloatRow<V, E>{call.a + row * call.a_stride}, c);
}

// Returns false if the row is too short for it.
template <typename V, typename E>
bool dot_one_row(const DotCall& call, int64_t row) {
  constexpr int kLong = V::DotTiles::kInTurn, kShort = kLong / 2;
  if (call.k >= 2 * kLong * V::kLanes) {
    dot_row_of_any<V, E, kLong>(call, row);
    return true;
  }
  if (call.k >= kShort * V::kLanes) {
    dot_row_of_any<V, E, kShort>(call, row);
    return true;
  }
  return false;
}

}  // namespace
}  // namespace cpuaccel::kernels
