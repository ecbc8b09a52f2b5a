// AVX-512 vector class of sixteen floats. Included with AVX-512's flags only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Floats16 {
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr int64_t kLanes = 16;

  CPUACCEL_INLINE static Vector set1(float value) { return _mm512_set1_ps(value); }
  CPUACCEL_INLINE static Vector load(const float* src) { return _mm512_loadu_ps(src); }
  CPUACCEL_INLINE static void store(float* dst, Vector v) { _mm512_storeu_ps(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_ps(a, b, c);
  }

  // The first `count` lanes, 0 to 16.
  CPUACCEL_INLINE static Mask mask(int64_t count) {
    return static_cast<Mask>((uint32_t{1} << count) - 1);
  }
  CPUACCEL_INLINE static Vector load(const float* src, Mask m) {
    return _mm512_maskz_loadu_ps(m, src);
  }
  CPUACCEL_INLINE static void store(float* dst, Vector v, Mask m) {
    _mm512_mask_storeu_ps(dst, m, v);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
