// AVX2 vector class of gemm: tiles of eight-float vectors.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/float_vectors/avx2.h"
#include "kernels/gemm/blocks.h"
#include "kernels/gemm/dot_tiles.h"
#include "kernels/gemm/half_avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Avx2Floats : Floats8 {
  static constexpr int kVectors = 2;
  static constexpr int kRows = 6;  // 12 accumulators, 2 vectors of B and one of A: 15 of 16
  static constexpr int64_t kPackedKc = kGemmKc;
  static constexpr int kPixels = 6;
  static constexpr int kRowsToBase = 3;
  using DotTiles = DotTiles4x3;
  template <int kOf>
  static constexpr int kSets = 1;  // sums per element of a tile

  CPUACCEL_INLINE static Vector zero() { return _mm256_setzero_ps(); }
  CPUACCEL_INLINE static Vector broadcast(const float* src) { return _mm256_broadcast_ss(src); }
  // sum += a * b, in the register of sum. If the compiler may choose, it writes to an operand's
  // register, which causes moves and spills.
  CPUACCEL_INLINE static void accumulate(Vector& sum, Vector a, Vector b) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  }

  // Stores the sums of the lanes of a, b, c and d, always added in the same order.
  CPUACCEL_INLINE static void store_sums(float* dst, Vector a, Vector b, Vector c, Vector d) {
    store_lane_sums(dst, a, b, c, d);
  }

  // Loads elements of B as vectors of floats.
  template <typename Elements>
  struct As {
    using Element = typename Elements::Element;
    CPUACCEL_INLINE static Vector load(const Element* src) { return Elements::load(src); }
    CPUACCEL_INLINE static Vector load(const Element* src, int64_t count) {
      return load_part<Elements>(src, count);
    }
    CPUACCEL_INLINE static void load_two(const Element* src, Vector (&dst)[2]) {
      Elements::load_two(src, dst);
    }
  };
  using F32 = As<F32Elements>;
  using Bf16 = As<Bf16Elements>;
  using F16 = As<F16Elements>;
};

}  // namespace
}  // namespace cpuaccel::kernels
