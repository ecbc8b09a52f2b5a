// tile.h (gemm's innermost loop) with SVE vectors of any length. Included by ISA sources only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/prefetch.h"
#include "kernels/gemm/sve.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Sums per element. With few rows there are several, or each step would wait for the one before it.
// Sum e * kSets + s is the s-th of element e, and takes every kSets-th step.
template <int kRows>
constexpr int kSveSets = kRows <= 2 ? 4 / kRows : 1;

template <typename E, int kRows, int kVectors>
struct SveTileLoop {
  static constexpr int kSteps = 4;  // steps of k per iteration of the loop
  static constexpr size_t kSets = kSveSets<kRows>;
  static_assert(kSteps % kSets == 0);

  template <size_t... kSum, typename... Sums>
  CPUACCEL_INLINE static void run(const TileCall& call, int64_t row,
                                  std::index_sequence<kSum...> numbers, Sums... sums) {
    const float* a[kRows];
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      __builtin_prefetch(call.c + (row + i) * call.c_stride, 1);
      a[i] = call.a + (row + i) * call.a_stride;
    }
    const auto* panel = static_cast<const typename E::Element*>(call.panel);
    for (int64_t left = call.k / kSteps; left > 0; --left) {
      step<0>(a, panel, numbers, sums...);
      step<1>(a, panel, numbers, sums...);
      step<2>(a, panel, numbers, sums...);
      step<3>(a, panel, numbers, sums...);
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows; ++i) {
        a[i] += kSteps;
      }
    }
    for (int64_t left = call.k % kSteps; left > 0; --left) {
      step<0>(a, panel, numbers, sums...);
      CPUACCEL_UNROLL
      for (int i = 0; i < kRows; ++i) {
        ++a[i];
      }
    }
    store<kSets>(call, row, sums...);
  }

 private:
  template <size_t kStep, size_t... kSum, typename... Sums>
  CPUACCEL_INLINE static void step(const float* (&a)[kRows], const typename E::Element*& panel,
                                   std::index_sequence<kSum...> /*numbers*/, Sums&... sums) {
    const svfloat32_t b0 = E::load(panel, 0);
    const svfloat32_t b1 = kVectors > 1 ? E::load(panel, 1) : b0;
    const svfloat32_t b2 = kVectors > 2 ? E::load(panel, 2) : b0;
    (accumulate<kSum % kSets == kStep % kSets>(sums, a[kSum / kSets / kVectors][kStep],
                                               sve_pick<kSum / kSets % kVectors>(b0, b1, b2)),
     ...);
    panel += SveFloats::kVectors * SveFloats::lanes();
    // As in tile.h: prevents loads ahead for several steps.
    asm volatile("" : "+r"(panel));
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      asm volatile("" : "+r"(a[i]));
    }
  }

  template <bool kNow>
  CPUACCEL_INLINE static void accumulate(svfloat32_t& sum, const float& a, svfloat32_t b) {
    if constexpr (kNow) {
      sve_accumulate(sum, svdup_n_f32(a), b);
    }
  }

  template <size_t kOf, typename... Sums>
  CPUACCEL_INLINE static void store(const TileCall& call, int64_t row, Sums... sums) {
    if constexpr (kOf > 1) {
      sve_join<sizeof...(sums) / 2>(
          [&](auto... joined)
              __attribute__((always_inline)) { store<kOf / 2>(call, row, joined...); },
          sums...);
    } else {
      store_each(call, row, std::make_index_sequence<sizeof...(sums)>(), sums...);
    }
  }

  template <size_t... kElement, typename... Sums>
  CPUACCEL_INLINE static void store_each(const TileCall& call, int64_t row,
                                         std::index_sequence<kElement...> /*elements*/,
                                         Sums... sums) {
    (sve_store_sum<kVectors, kElement % kVectors>(
         call, row + static_cast<int64_t>(kElement / kVectors), sums),
     ...);
  }
};

template <typename E>
struct SveTile {
  template <int kRows, int kVectors>
  static void run(const TileCall& call, int64_t row) {
    constexpr int kCount = kSveSets<kRows> * kRows * kVectors;
    from_zero<kRows, kVectors>(call, row, std::make_index_sequence<kCount>());
  }

 private:
  template <int kRows, int kVectors, size_t... kSum>
  CPUACCEL_INLINE static void from_zero(const TileCall& call, int64_t row,
                                        std::index_sequence<kSum...> numbers) {
    SveTileLoop<E, kRows, kVectors>::run(call, row, numbers, sve_zero<kSum>()...);
  }
};

// Splits rows evenly, as in tile.h.
template <typename E>
void sve_tiles_of(const TileCall& call) {
  const int64_t count = (call.m + SveFloats::kRows - 1) / SveFloats::kRows;
  const int64_t least = call.m / count;
  const int64_t larger = call.m % count;
  auto* const small = sve_instance<SveTile<E>>(least, call.n);
  auto* const large = larger == 0 ? small : sve_instance<SveTile<E>>(least + 1, call.n);
  PrefetchWalk prefetch(call.next, count);
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i) {
    prefetch();
    (i < larger ? large : small)(call, row);
    row += i < larger ? least + 1 : least;
  }
}

void sve_tiles(const TileCall& call) {
  switch (call.type) {
    case DataType::f32:
      return sve_tiles_of<SveFloats::F32>(call);
    case DataType::bf16:
      return sve_tiles_of<SveFloats::Bf16>(call);
    case DataType::f16:
      return sve_tiles_of<SveFloats::F16>(call);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
