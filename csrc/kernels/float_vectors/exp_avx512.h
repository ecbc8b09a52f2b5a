// AVX-512 vector class with the operations that exp.h needs. Included with AVX-512's flags only.
#pragma once

#include <initializer_list>

#include "kernels/float_vectors/avx512.h"
#include "kernels/float_vectors/lanes_x86.h"

namespace cpuaccel::kernels {
namespace {

struct ExpFloats16 : Floats16 {
  CPUACCEL_INLINE static Vector negative(Vector a) { return _mm512_xor_ps(a, set1(-0.0f)); }
  CPUACCEL_INLINE static Vector min(Vector a, Vector b) { return _mm512_min_ps(a, b); }
  CPUACCEL_INLINE static Vector max(Vector a, Vector b) { return _mm512_max_ps(a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  CPUACCEL_INLINE static Vector subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  CPUACCEL_INLINE static Vector round(Vector a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  CPUACCEL_INLINE static Vector select(Mask m, Vector a, Vector b) {
    return _mm512_mask_blend_ps(m, b, a);
  }
  // 0 if x > limit, otherwise a.
  CPUACCEL_INLINE static Vector zero_above(Vector a, Vector x, Vector limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NGT_UQ), a);
  }
  CPUACCEL_INLINE static Vector scale(Vector a, Vector n) { return _mm512_scalef_ps(a, n); }
  // 2^t as 2^n times a polynomial of r = t - n in [0, 1], its coefficients from the highest down. n
  // is floor(t), which scalef takes from t itself.
  CPUACCEL_INLINE static Vector power_by(Vector t, float highest,
                                         std::initializer_list<float> others) {
    return _mm512_scalef_ps(of_rest(t, highest, others), t);
  }
  // 2^t within 2^-23, plus the effect of t's own rounding: the best polynomial of degree 5 by
  // Remez' algorithm.
  CPUACCEL_INLINE static Vector power(Vector t) { return _mm512_scalef_ps(of_rest(t), t); }
  // The same, but 0 if x > most.
  CPUACCEL_INLINE static Vector power_up_to(Vector t, Vector x, float most) {
    return scaled_up_to(of_rest(t), t, x, most);
  }
  // The same within 2^-13, for results that are rounded to bf16: the best polynomial of degree 3,
  // relative to 2^r.
  CPUACCEL_INLINE static Vector power_up_to_bf16(Vector t, Vector x, float most) {
    const Vector rest = of_rest(t, 0.0780245302f, {0.226067146f, 0.695833543f, 0.999925219f});
    return scaled_up_to(rest, t, x, most);
  }
  // table[the lowest four bits of each lane]
  CPUACCEL_INLINE static Vector pick16(Vector table, Vector lanes) {
    return _mm512_permutexvar_ps(_mm512_castps_si512(lanes), table);
  }
  CPUACCEL_INLINE static float largest_lane(Vector v) {
    return largest_lane_of(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
  }
  CPUACCEL_INLINE static float sum_of_lanes(Vector v) {
    return sum_of_lanes_of(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
  }

 private:
  CPUACCEL_INLINE static Vector scaled_up_to(Vector rest, Vector t, Vector x, float most) {
    const Mask within = _mm512_cmp_ps_mask(x, set1(most), _CMP_NGT_UQ);
    return _mm512_maskz_scalef_ps(within, rest, t);
  }
  CPUACCEL_INLINE static Vector of_rest(Vector t, float highest,
                                        std::initializer_list<float> others) {
    constexpr int kLessFloor = 0x09;
    const Vector r = _mm512_reduce_ps(t, kLessFloor);
    Vector sum = set1(highest);
    for (const float factor : others) {
      sum = fma(sum, r, set1(factor));
    }
    return sum;
  }
  CPUACCEL_INLINE static Vector of_rest(Vector t) {
    return of_rest(t, 0.00187757667f,
                   {0.00898934009f, 0.0558263181f, 0.240153617f, 0.693153073f, 0.999999925f});
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
