// The loop of tile.h with vectors of any length. Included by ISA sources only.
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

constexpr int kSveSteps = 4;  // of k in a turn of the loop

// A step of k.
template <typename E, int kRows, int kVectors, size_t... kSum, typename... Sums>
CPUACCEL_INLINE void sve_tile_step(const float* (&a)[kRows], const typename E::Element*& panel,
                                   int k, std::index_sequence<kSum...> /*numbers*/, Sums&... sums) {
  const svfloat32_t b0 = E::load(panel, 0);
  const svfloat32_t b1 = kVectors > 1 ? E::load(panel, 1) : b0;
  const svfloat32_t b2 = kVectors > 2 ? E::load(panel, 2) : b0;
  (sve_accumulate(sums, svdup_n_f32(a[kSum / kVectors][k]), sve_pick<kSum % kVectors>(b0, b1, b2)),
   ...);
  panel += SveFloats::kVectors * SveFloats::lanes();
  // As in tile.h: no loads ahead for several steps.
  asm volatile("" : "+r"(panel));
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    asm volatile("" : "+r"(a[i]));
  }
}

template <typename E, int kRows, int kVectors, size_t... kSum, typename... Sums>
CPUACCEL_INLINE void sve_tile_sums(const TileCall& call, int64_t row,
                                   std::index_sequence<kSum...> numbers, Sums... sums) {
  const float* a[kRows];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows; ++i) {
    __builtin_prefetch(call.c + (row + i) * call.c_stride, 1);
    a[i] = call.a + (row + i) * call.a_stride;
  }
  const auto* panel = static_cast<const typename E::Element*>(call.panel);
  for (int64_t left = call.k / kSveSteps; left > 0; --left) {
    CPUACCEL_UNROLL
    for (int k = 0; k < kSveSteps; ++k) {
      sve_tile_step<E, kRows, kVectors>(a, panel, k, numbers, sums...);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      a[i] += kSveSteps;
    }
  }
  for (int64_t left = call.k % kSveSteps; left > 0; --left) {
    sve_tile_step<E, kRows, kVectors>(a, panel, 0, numbers, sums...);
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      ++a[i];
    }
  }
  (sve_store_sum<kVectors, kSum % kVectors>(call, row + static_cast<int64_t>(kSum / kVectors),
                                            sums),
   ...);
}

template <typename E>
struct SveTile {
  template <int kRows, int kVectors>
  static void run(const TileCall& call, int64_t row) {
    from_zero<kRows, kVectors>(call, row, std::make_index_sequence<kRows * kVectors>());
  }

 private:
  template <int kRows, int kVectors, size_t... kSum>
  CPUACCEL_INLINE static void from_zero(const TileCall& call, int64_t row,
                                        std::index_sequence<kSum...> numbers) {
    sve_tile_sums<E, kRows, kVectors>(call, row, numbers, sve_zero<kSum>()...);
  }
};

// Rows are shared out evenly, as in tile.h.
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
    case GemmType::f32:
      return sve_tiles_of<SveFloats::F32>(call);
    case GemmType::bf16:
      return sve_tiles_of<SveFloats::Bf16>(call);
    case GemmType::f16:
      return sve_tiles_of<SveFloats::F16>(call);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
