// quad_tile_neon.h (BFMMLA) with SVE vectors of any length: each 128 bits hold two columns of B.
// Included by the ISA source only.
#pragma once

#include <arm_sve.h>

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

constexpr int kSveRowPairs = SveFloats::kRows / 2;
constexpr int kSveQuads = 2;  // quads of k per iteration of the loop

CPUACCEL_INLINE void sve_accumulate_quads(svfloat32_t& sum, svbfloat16_t a, svbfloat16_t b) {
  asm("bfmmla %0.s, %1.h, %2.h" : "+w"(sum) : "w"(a), "w"(b));
}

// Tiles of pairs of rows, or of a single row without a partner. Sum i * 2 * vectors + v belongs to
// pair i and the v-th vector of quads; together with the next sum it is a vector of columns.
template <bool kSingle>
struct SveQuadTile {
  template <int kPairs, int kVectors>
  static void run(const TileCall& call, int64_t row) {
    from_zero<kPairs, kVectors>(call, row, std::make_index_sequence<kPairs * 2 * kVectors>());
  }

 private:
  static constexpr int64_t kQuad = kSingle ? 2 : 4;  // floats

  // The quads of two rows side by side, in each 128 bits; zeros for a missing row.
  CPUACCEL_INLINE static svbfloat16_t rows(const float* src) {
    const svbool_t some = kSingle ? svptrue_pat_b32(SV_VL2) : svptrue_b32();
    return svreinterpret_bf16_f32(svld1rq_f32(some, src));
  }
  CPUACCEL_INLINE static svbfloat16_t columns(const float* panel, int vector) {
    return svreinterpret_bf16_f32(SveFloats::F32::load(panel, vector));
  }

  template <int kPairs, int kVectors, size_t... kSum, typename... Sums>
  CPUACCEL_INLINE static void step(const float* (&a)[kPairs], const float*& panel, int quad,
                                   std::index_sequence<kSum...> /*numbers*/, Sums&... sums) {
    constexpr size_t kColumns = 2 * kVectors;
    (sve_accumulate_quads(sums, rows(a[kSum / kColumns] + quad * kQuad),
                          columns(panel, kSum % kColumns)),
     ...);
    panel += 2 * SveFloats::kVectors * SveFloats::lanes();
    // As in tile.h: prevents loads ahead for several steps.
    asm volatile("" : "+r"(panel));
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      asm volatile("" : "+r"(a[i]));
    }
  }

  template <int kPairs, int kVectors, size_t... kSum>
  CPUACCEL_INLINE static void from_zero(const TileCall& call, int64_t row,
                                        std::index_sequence<kSum...> numbers) {
    sums_of<kPairs, kVectors>(call, row, numbers, sve_zero<kSum>()...);
  }

  template <int kPairs, int kVectors, size_t... kSum, typename... Sums>
  CPUACCEL_INLINE static void sums_of(const TileCall& call, int64_t row,
                                      std::index_sequence<kSum...> numbers, Sums... sums) {
    const float* a[kPairs];
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      a[i] = call.a + (row + 2 * i) * call.a_stride;
    }
    const auto* panel = static_cast<const float*>(call.panel);
    const int64_t quads = call.k / 2;
    for (int64_t left = quads / kSveQuads; left > 0; --left) {
      CPUACCEL_UNROLL
      for (int quad = 0; quad < kSveQuads; ++quad) {
        step<kPairs, kVectors>(a, panel, quad, numbers, sums...);
      }
      CPUACCEL_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        a[i] += kSveQuads * kQuad;
      }
    }
    static_assert(kSveQuads == 2);
    if (quads % 2 != 0) {
      step<kPairs, kVectors>(a, panel, 0, numbers, sums...);
    }
    store<kVectors, 0>(call, row, sums...);
  }

  // Each 128 bits of a sum hold two rows of two columns.
  template <int kVectors, size_t kVector, typename... Sums>
  CPUACCEL_INLINE static void store(const TileCall& call, int64_t row, svfloat32_t low,
                                    svfloat32_t high, Sums... others) {
    const svfloat64_t columns0 = svreinterpret_f64_f32(low);
    const svfloat64_t columns1 = svreinterpret_f64_f32(high);
    sve_store_sum<kVectors, kVector>(call, row,
                                     svreinterpret_f32_f64(svuzp1_f64(columns0, columns1)));
    if constexpr (!kSingle) {
      sve_store_sum<kVectors, kVector>(call, row + 1,
                                       svreinterpret_f32_f64(svuzp2_f64(columns0, columns1)));
    }
    if constexpr (sizeof...(others) > 0) {
      constexpr bool kLast = kVector == kVectors - 1;
      store<kVectors, kLast ? 0 : kVector + 1>(call, kLast ? row + 2 : row, others...);
    }
  }
};

// Splits pairs of rows evenly, as in tile.h.
void sve_quad_tiles(const TileCall& call) {
  const int64_t pairs = call.m / 2;
  const int64_t count = (pairs + kSveRowPairs - 1) / kSveRowPairs;
  PrefetchWalk prefetch(call.next, count + call.m % 2);
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i) {
    prefetch();
    const int64_t some = pairs / count + (i < pairs % count ? 1 : 0);
    sve_instance<SveQuadTile<false>, kSveRowPairs>(some, call.n)(call, row);
    row += 2 * some;
  }
  if (call.m % 2 != 0) {
    prefetch();
    sve_instance<SveQuadTile<true>, 1>(1, call.n)(call, row);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
