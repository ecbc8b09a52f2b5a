// AVX2 vector class with the operations that exp.h needs. Included with AVX2's flags only.
#pragma once

#include "kernels/float_vectors/avx2.h"
#include "kernels/float_vectors/lanes_x86.h"

namespace cpuaccel::kernels {
namespace {

struct ExpFloats8 : Floats8 {
  CPUACCEL_INLINE static Vector negative(Vector a) { return _mm256_xor_ps(a, set1(-0.0f)); }
  CPUACCEL_INLINE static Vector min(Vector a, Vector b) { return _mm256_min_ps(a, b); }
  CPUACCEL_INLINE static Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  CPUACCEL_INLINE static Vector subtract(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  CPUACCEL_INLINE static Vector round(Vector a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  CPUACCEL_INLINE static Vector select(Mask m, Vector a, Vector b) {
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
  }
  // 0 if x > limit, otherwise a.
  CPUACCEL_INLINE static Vector zero_above(Vector a, Vector x, Vector limit) {
    return _mm256_and_ps(a, _mm256_cmp_ps(x, limit, _CMP_NGT_UQ));
  }
  CPUACCEL_INLINE static Vector power_of_two(__m256i exponent) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
  }
  // a * 2^n in two steps, because n may be 128.
  CPUACCEL_INLINE static Vector scale(Vector a, Vector n) {
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const Vector rest = power_of_two(_mm256_sub_epi32(whole, half));
    return _mm256_mul_ps(_mm256_mul_ps(a, power_of_two(half)), rest);
  }
  CPUACCEL_INLINE static float largest_lane(Vector v) { return largest_lane_of(v); }
  CPUACCEL_INLINE static float sum_of_lanes(Vector v) { return sum_of_lanes_of(v); }
};

}  // namespace
}  // namespace cpuaccel::kernels
