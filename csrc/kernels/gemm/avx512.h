// AVX-512 vector class of gemm: tiles of sixteen-float vectors.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/float_vectors/avx512.h"
#include "kernels/gemm/blocks.h"
#include "kernels/gemm/dot_tiles.h"
#include "kernels/gemm/half_avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Avx512Floats : Floats16 {
  static constexpr int kVectors = 2;
  // 14 rows would fit the registers, but so many rows of A leave no room for the panel in L1.
  static constexpr int kRows = 12;
  // Longer than fits L1: L2 is fast enough, and sums are loaded and stored less often. A row of
  // BERT-base is one panel.
  static constexpr int64_t kPackedKc = 768;
  static constexpr int kPixels = 14;  // 28 accumulators, 2 vectors of B and one of A: 31 of 32
  static constexpr int kRowsToBase = 3;
  using DotTiles = DotTiles4x3;
  template <int kOf>
  static constexpr int kSets = 1;  // sums per element of a tile

  CPUACCEL_INLINE static Vector zero() { return _mm512_setzero_ps(); }
  CPUACCEL_INLINE static Vector broadcast(const float* src) { return _mm512_set1_ps(*src); }
  CPUACCEL_INLINE static void accumulate(Vector& sum, Vector a, Vector b) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));  // as in avx2.h
  }

  // Stores the sums of the lanes of a, b, c and d, always added in the same order.
  CPUACCEL_INLINE static void store_sums(float* dst, Vector a, Vector b, Vector c, Vector d) {
    store_lane_sums(dst, halves(a), halves(b), halves(c), halves(d));
  }

  // Loads elements of B as vectors of floats.
  struct F32 {
    using Element = float;
    CPUACCEL_INLINE static Vector load(const float* src) { return _mm512_loadu_ps(src); }
    CPUACCEL_INLINE static Vector load(const float* src, int64_t count) {
      return _mm512_maskz_loadu_ps(mask(count), src);
    }
  };
  struct Bf16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static Vector load(const uint16_t* src) { return widened(load16(src)); }
    CPUACCEL_INLINE static Vector load(const uint16_t* src, int64_t count) {
      return widened(_mm256_maskz_loadu_epi16(mask(count), src));
    }
    // Thirty-two elements: those at even indices, then those at odd ones.
    CPUACCEL_INLINE static void load_two(const uint16_t* src, Vector (&dst)[2]) {
      const __m512i pairs = _mm512_loadu_si512(src);
      dst[0] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
      dst[1] = _mm512_castsi512_ps(
          _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
    }
    CPUACCEL_INLINE static Vector widened(__m256i halves) {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
  };
  struct F16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static Vector load(const uint16_t* src) { return _mm512_cvtph_ps(load16(src)); }
    CPUACCEL_INLINE static Vector load(const uint16_t* src, int64_t count) {
      return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(count), src));
    }
    CPUACCEL_INLINE static void load_two(const uint16_t* src, Vector (&dst)[2]) {
      dst[0] = load(src);
      dst[1] = load(src + kLanes);
    }
  };

 private:
  CPUACCEL_INLINE static __m256i load16(const uint16_t* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  CPUACCEL_INLINE static __m256 halves(Vector v) {
    return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
