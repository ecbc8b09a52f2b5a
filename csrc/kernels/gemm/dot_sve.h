// dot.h (gemm by dot products) with SVE vectors of any length. Included by ISA sources only.
#pragma once

#include <arm_neon.h>
#include <arm_sve.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/gemm/dot_loop.h"
#include "kernels/gemm/dot_tiles.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/prefetch.h"
#include "kernels/gemm/sve.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// The sums of the lanes of a, b, c and d, always added in the same order.
CPUACCEL_INLINE void sve_lane_sums(float (&sums)[4], svfloat32_t a, svfloat32_t b, svfloat32_t c,
                                   svfloat32_t d) {
  const svbool_t all = svptrue_b32();
  const svfloat64_t ab =
      svreinterpret_f64_f32(svadd_f32_x(all, svzip1_f32(a, b), svzip2_f32(a, b)));
  const svfloat64_t cd =
      svreinterpret_f64_f32(svadd_f32_x(all, svzip1_f32(c, d), svzip2_f32(c, d)));
  // Each 128 bits hold partial sums of a, b, c and d.
  const svfloat32_t parts = svadd_f32_x(all, svreinterpret_f32_f64(svzip1_f64(ab, cd)),
                                        svreinterpret_f32_f64(svzip2_f64(ab, cd)));
  alignas(64) float memory[64];
  svst1_f32(all, memory, parts);
  float32x4_t sum = vld1q_f32(memory);
  for (int64_t i = 4; i < SveFloats::lanes(); i += 4) {
    sum = vaddq_f32(sum, vld1q_f32(memory + i));
  }
  vst1q_f32(sums, sum);
}

struct SveMultiplyAdd {
  CPUACCEL_INLINE static void accumulate(svfloat32_t& sum, svfloat32_t a, svfloat32_t b) {
    sve_accumulate(sum, a, b);
  }
};

// With vectors longer than NEON's, two multiply-adds start in a cycle, and eight are in flight.
struct SveDotTiles : DotTiles6x4 {
  template <int kOf>
  static constexpr int kSums = kOf == 1 ? 2 : 1;
};

// Tiles of four columns, or of one. Sum e * kSums + s is the s-th sum of element e.
template <typename Product, typename E>
struct SveDot {
  using Tiles = SveDotTiles;

  template <int kRows>
  static void rows(const DotCall& call, int64_t row, PrefetchWalk& prefetch) {
    constexpr int kColumns = Tiles::kColumns<kRows>;
    int64_t column = 0;
    for (; column + kColumns <= call.n; column += kColumns) {
      prefetch();
      tile<kRows, kColumns>(call, row, column);
    }
    for (; column < call.n; ++column) {
      tile<kRows, 1>(call, row, column);
    }
  }

 private:
  template <int kRows, int kColumns>
  static void tile(const DotCall& call, int64_t row, int64_t column) {
    constexpr int kCount = Tiles::kSums<kRows> * kRows * kColumns;
    from_zero<kRows, kColumns>(call, row, column, std::make_index_sequence<kCount>());
  }

  template <int kRows, int kColumns, size_t... kSum>
  CPUACCEL_INLINE static void from_zero(const DotCall& call, int64_t row, int64_t column,
                                        std::index_sequence<kSum...> numbers) {
    sums_of<kRows, kColumns>(call, row, column, numbers, sve_zero<kSum>()...);
  }

  template <int kRows, int kColumns, size_t... kSum, typename... Sums>
  CPUACCEL_INLINE static void sums_of(const DotCall& call, int64_t row, int64_t column,
                                      std::index_sequence<kSum...> /*numbers*/, Sums... sums) {
    constexpr size_t kSums = Tiles::kSums<kRows>;
    const int64_t lanes = SveFloats::lanes();
    const float* a[kRows];
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      a[i] = call.a + (row + i) * call.a_stride;
    }
    const typename E::Element* b[kColumns];
    CPUACCEL_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      b[j] = static_cast<const typename E::Element*>(call.b) + (column + j) * call.b_stride;
    }
    int64_t k = 0;
    for (; k + static_cast<int64_t>(kSums) * lanes <= call.k;
         k += static_cast<int64_t>(kSums) * lanes) {
      (Product::accumulate(sums, SveFloats::F32::load(a[kSum / kSums / kColumns] + k, kSum % kSums),
                           E::load(b[kSum / kSums % kColumns] + k, kSum % kSums)),
       ...);
    }
    for (; k < call.k; k += lanes) {
      const svbool_t some = svwhilelt_b32(k, call.k);
      (last<kSum % kSums>(sums, a[kSum / kSums / kColumns] + k, b[kSum / kSums % kColumns] + k,
                          some),
       ...);
    }
    float* c = call.c + row * call.c_row + column * call.c_column;
    if constexpr (kSums == 1) {
      store<kColumns>(call, c, sums...);
    } else {
      static_assert(kSums == 2);
      sve_join<kRows * kColumns>(
          [&](auto... joined)
              __attribute__((always_inline)) { store<kColumns>(call, c, joined...); },
          sums...);
    }
  }

  // The rest of k goes to the first sum of each element.
  template <size_t kSum>
  CPUACCEL_INLINE static void last(svfloat32_t& sum, const float* a, const typename E::Element* b,
                                   svbool_t some) {
    if constexpr (kSum == 0) {
      Product::accumulate(sum, SveFloats::F32::load(a, 0, some), E::load(b, 0, some));
    }
  }

  CPUACCEL_INLINE static void store_one(const DotCall& call, float& to, float sum) {
    to = (call.add ? to : 0.0f) + call.alpha * sum;
  }

  // Stores a row of the tile, then the others.
  template <int kColumns, typename... Sums>
    requires(kColumns == 1)
  CPUACCEL_INLINE static void store(const DotCall& call, float* c, svfloat32_t sum,
                                    Sums... others) {
    store_one(call, *c, svaddv_f32(svptrue_b32(), sum));
    if constexpr (sizeof...(others) > 0) {
      store<kColumns>(call, c + call.c_row, others...);
    }
  }
  template <int kColumns, typename... Sums>
    requires(kColumns == 4)
  CPUACCEL_INLINE static void store(const DotCall& call, float* c, svfloat32_t s0, svfloat32_t s1,
                                    svfloat32_t s2, svfloat32_t s3, Sums... others) {
    float sums[4];
    sve_lane_sums(sums, s0, s1, s2, s3);
    CPUACCEL_UNROLL
    for (int j = 0; j < 4; ++j) {
      store_one(call, c[j * call.c_column], sums[j]);
    }
    if constexpr (sizeof...(others) > 0) {
      store<kColumns>(call, c + call.c_row, others...);
    }
  }
};

template <typename Product, typename E>
void sve_dot(const DotCall& call) {
  dot_evenly<SveDot<Product, E>>(call);
}

template <typename Product>
void sve_dots(const DotCall& call) {
  switch (call.type) {
    case DataType::f32:
      return sve_dot<Product, SveFloats::F32>(call);
    case DataType::bf16:
      return sve_dot<Product, SveFloats::Bf16>(call);
    case DataType::f16:
      return sve_dot<Product, SveFloats::F16>(call);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
