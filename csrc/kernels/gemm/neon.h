// NEON vector class of gemm: tiles of four-float vectors, panels of twelve columns.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/float_vectors/neon.h"
#include "kernels/gemm/blocks.h"
#include "kernels/gemm/dot_tiles.h"
#include "kernels/gemm/half_neon.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct NeonFloats : Floats4 {
  static constexpr int kVectors = 3;
  static constexpr int kRows = 8;  // 24 accumulators, 3 vectors of B: five registers are left for A
  static constexpr int64_t kPackedKc = kGemmKc;
  static constexpr int kPixels = 8;
  static constexpr int kRowsToBase = 1;
  using DotTiles = DotTiles6x4;
  // Sums per element of a tile: sixteen multiply-adds are in flight.
  template <int kOf>
  static constexpr int kSets = kOf <= 2   ? 4
                               : kOf <= 4 ? 2
                                          : 1;

  CPUACCEL_INLINE static Vector zero() { return vdupq_n_f32(0.0f); }
  // The multiply-add broadcasts a lane: a load to all lanes would occupy an arithmetic unit.
  CPUACCEL_INLINE static float broadcast(const float* src) { return *src; }
  // sum += a * b, in the register of sum, as in avx2.h.
  CPUACCEL_INLINE static void accumulate(Vector& sum, Vector a, Vector b) {
    asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
  }
  // Volatile, to keep the order, in which few values of A are in registers at a time.
  CPUACCEL_INLINE static void accumulate(Vector& sum, float a, Vector b) {
    asm volatile("fmla %0.4s, %2.4s, %1.s[0]" : "+w"(sum) : "w"(a), "w"(b));
  }

  // Stores the sums of the lanes of a, b, c and d, always added in the same order.
  CPUACCEL_INLINE static void store_sums(float* dst, Vector a, Vector b, Vector c, Vector d) {
    vst1q_f32(dst, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
  }

  // Loads elements of B as vectors of floats.
  template <typename Elements>
  struct As {
    using Element = typename Elements::Element;
    CPUACCEL_INLINE static Vector load(const Element* src) { return Elements::load(src); }
    CPUACCEL_INLINE static Vector load(const Element* src, int64_t count) {
      return load_part<Elements>(src, count);
    }
  };
  using F32 = As<F32Elements>;
  using Bf16 = As<Bf16Elements>;
  using F16 = As<F16Elements>;
};

}  // namespace
}  // namespace cpuaccel::kernels
