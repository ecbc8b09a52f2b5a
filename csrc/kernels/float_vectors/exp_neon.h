// NEON vector class with the operations that exp.h needs. Included with Arm's flags only.
#pragma once

#include "kernels/float_vectors/neon.h"

namespace cpuaccel::kernels {
namespace {

struct ExpFloats4 : Floats4 {
  CPUACCEL_INLINE static Vector negative(Vector a) { return vnegq_f32(a); }
  // min and max return b if either operand is NaN, as on x86.
  CPUACCEL_INLINE static Vector min(Vector a, Vector b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  CPUACCEL_INLINE static Vector max(Vector a, Vector b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return vmulq_f32(a, b); }
  CPUACCEL_INLINE static Vector subtract(Vector a, Vector b) { return vsubq_f32(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return vdivq_f32(a, b); }
  CPUACCEL_INLINE static Vector round(Vector a) { return vrndnq_f32(a); }
  // m is a mask from a comparison, not a number of lanes.
  CPUACCEL_INLINE static Vector select(uint32x4_t m, Vector a, Vector b) {
    return vbslq_f32(m, a, b);
  }
  // 0 if x > limit, otherwise a.
  CPUACCEL_INLINE static Vector zero_above(Vector a, Vector x, Vector limit) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), vcgtq_f32(x, limit)));
  }
  CPUACCEL_INLINE static Vector power_of_two(int32x4_t exponent) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(exponent, vdupq_n_s32(127)), 23));
  }
  // a * 2^n in two steps, because n may be 128.
  CPUACCEL_INLINE static Vector scale(Vector a, Vector n) {
    const int32x4_t whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(a, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
