// AVX2 vector class of eight floats. Included with AVX2's flags only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Floats8 {
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr int64_t kLanes = 8;

  CPUACCEL_INLINE static Vector set1(float value) { return _mm256_set1_ps(value); }
  CPUACCEL_INLINE static Vector load(const float* src) { return _mm256_loadu_ps(src); }
  CPUACCEL_INLINE static void store(float* dst, Vector v) { _mm256_storeu_ps(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_ps(a, b, c);
  }

  // The first `count` lanes, 0 to 8.
  CPUACCEL_INLINE static Mask mask(int64_t count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
  }
  CPUACCEL_INLINE static Vector load(const float* src, Mask m) {
    return _mm256_maskload_ps(src, m);
  }
  CPUACCEL_INLINE static void store(float* dst, Vector v, Mask m) {
    _mm256_maskstore_ps(dst, m, v);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
