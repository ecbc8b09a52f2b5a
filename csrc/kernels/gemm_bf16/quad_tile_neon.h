// gemm_bf16's innermost loop with NEON's BFMMLA: two rows of A times two columns of B, four k at a
// time. Included by the ISA source only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemm/prefetch.h"
#include "kernels/gemm/start.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kRowPairs = NeonFloats::kRows / 2;
constexpr int kPanelVectors = NeonFloats::kVectors;
constexpr int64_t kQuadRow = 2 * kPanelVectors * NeonFloats::kLanes;  // of a panel, in floats
constexpr int kQuads = 2;  // quads of k per iteration of the loop

CPUACCEL_INLINE void accumulate_quads(float32x4_t& sum, float32x4_t a, float32x4_t b) {
  asm("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
}

// The quads of two rows side by side, or those of a single row without a partner.
template <bool kSingle>
struct QuadRows {
  static constexpr int64_t kQuad = kSingle ? 2 : 4;  // floats
  CPUACCEL_INLINE static float32x4_t load(const float* src) {
    if constexpr (kSingle) {
      return vcombine_f32(vld1_f32(src), vdup_n_f32(0.0f));
    } else {
      return vld1q_f32(src);
    }
  }
};

template <bool kSingle, int kPairs, int kVectors>
CPUACCEL_INLINE void quad_step(float32x4_t (&sums)[kPairs][2 * kVectors], const float* (&a)[kPairs],
                               const float*& panel, int quad) {
  using Rows = QuadRows<kSingle>;
  float32x4_t values[kPairs];
  CPUACCEL_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    values[i] = Rows::load(a[i] + quad * Rows::kQuad);
  }
  CPUACCEL_UNROLL
  for (int j = 0; j < 2 * kVectors; ++j) {
    const float32x4_t b = vld1q_f32(panel + quad * kQuadRow + 4 * j);
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      accumulate_quads(sums[i][j], values[i], b);
    }
  }
  // As in tile.h: prevents loads ahead for several steps.
  asm volatile("" : "+r"(panel));
  CPUACCEL_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    asm volatile("" : "+r"(a[i]));
  }
}

template <bool kSingle, int kPairs, int kVectors>
void quad_tile(const TileCall& call, int64_t row) {
  using V = NeonFloats;
  constexpr int64_t kQuad = QuadRows<kSingle>::kQuad;
  float32x4_t sums[kPairs][2 * kVectors];
  const float* a[kPairs];
  CPUACCEL_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    a[i] = call.a + (row + 2 * i) * call.a_stride;
    CPUACCEL_UNROLL
    for (int j = 0; j < 2 * kVectors; ++j) {
      sums[i][j] = V::zero();
    }
  }
  const auto* panel = static_cast<const float*>(call.panel);
  const int64_t quads = call.k / 2;
  for (int64_t left = quads / kQuads; left > 0; --left) {
    CPUACCEL_UNROLL
    for (int quad = 0; quad < kQuads; ++quad) {
      quad_step<kSingle, kPairs, kVectors>(sums, a, panel, quad);
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      a[i] += kQuads * kQuad;
    }
    panel += kQuads * kQuadRow;
  }
  static_assert(kQuads == 2);
  if (quads % 2 != 0) {
    quad_step<kSingle, kPairs, kVectors>(sums, a, panel, 0);
  }
  const float32x4_t alpha = V::set1(call.alpha);
  const auto mask = V::mask(call.n - (kVectors - 1) * V::kLanes);
  const GemmStart from = with_zeros(call.from);
  CPUACCEL_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    CPUACCEL_UNROLL
    for (int r = 0; r < (kSingle ? 1 : 2); ++r) {
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        // A sum holds two rows of two columns.
        const float64x2_t low = vreinterpretq_f64_f32(sums[i][2 * j]);
        const float64x2_t high = vreinterpretq_f64_f32(sums[i][2 * j + 1]);
        const float32x4_t sum =
            vreinterpretq_f32_f64(r == 0 ? vzip1q_f64(low, high) : vzip2q_f64(low, high));
        const int64_t at = row + 2 * i + r;
        float* to = call.c + at * call.c_stride + j * V::kLanes;
        if (j < kVectors - 1) {
          V::store(to, V::fma(alpha, sum, start_of<V>(from, at, j * V::kLanes)));
        } else {
          V::store(to, V::fma(alpha, sum, start_of<V>(from, at, j * V::kLanes, mask)), mask);
        }
      }
    }
  }
}

using QuadTile = void(const TileCall& call, int64_t row);

template <int kVectors, int kPairs>
CPUACCEL_INLINE QuadTile* quad_pairs_function(int64_t pairs) {
  if constexpr (kPairs == 1) {
    return quad_tile<false, 1, kVectors>;
  } else {
    return pairs == kPairs ? quad_tile<false, kPairs, kVectors>
                           : quad_pairs_function<kVectors, kPairs - 1>(pairs);
  }
}

// The function as narrow as `columns` allow; 0 pairs: for a single row without a partner.
template <int kVectors>
CPUACCEL_INLINE QuadTile* quad_function(int64_t columns, int64_t pairs) {
  if constexpr (kVectors > 1) {
    if (columns <= (kVectors - 1) * NeonFloats::kLanes) {
      return quad_function<kVectors - 1>(columns, pairs);
    }
  }
  return pairs == 0 ? quad_tile<true, 1, kVectors>
                    : quad_pairs_function<kVectors, kRowPairs>(pairs);
}

// Splits pairs of rows evenly, as in tile.h.
void quad_tiles(const TileCall& call) {
  const int64_t pairs = call.m / 2;
  const int64_t count = (pairs + kRowPairs - 1) / kRowPairs;
  PrefetchWalk prefetch(call.next, count + call.m % 2);
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i) {
    prefetch();
    const int64_t some = pairs / count + (i < pairs % count ? 1 : 0);
    quad_function<kPanelVectors>(call.n, some)(call, row);
    row += 2 * some;
  }
  if (call.m % 2 != 0) {
    prefetch();
    quad_function<kPanelVectors>(call.n, 0)(call, row);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
