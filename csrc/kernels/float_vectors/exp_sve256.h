// 256-bit SVE vector class with the operations that exp.h needs. Included with the flags of that
// vector length only.
#pragma once

#include "kernels/float_vectors/sve256.h"

namespace cpuaccel::kernels {
namespace {

struct SveExpFloats8 : SveFloats8 {
  CPUACCEL_INLINE static Vector negative(Vector a) { return svneg_f32_x(all(), a); }
  // min and max return b if either operand is NaN, as on x86.
  CPUACCEL_INLINE static Vector min(Vector a, Vector b) {
    return svsel_f32(svcmplt_f32(all(), a, b), a, b);
  }
  CPUACCEL_INLINE static Vector max(Vector a, Vector b) {
    return svsel_f32(svcmpgt_f32(all(), a, b), a, b);
  }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return svmul_f32_x(all(), a, b); }
  CPUACCEL_INLINE static Vector subtract(Vector a, Vector b) { return svsub_f32_x(all(), a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return svdiv_f32_x(all(), a, b); }
  CPUACCEL_INLINE static Vector round(Vector a) { return svrintn_f32_x(all(), a); }
  CPUACCEL_INLINE static Vector select(Mask m, Vector a, Vector b) { return svsel_f32(m, a, b); }
  // 0 if x > limit, otherwise a.
  CPUACCEL_INLINE static Vector zero_above(Vector a, Vector x, Vector limit) {
    return svsel_f32(svcmpgt_f32(all(), x, limit), svdup_f32(0.0f), a);
  }
  // a * 2^n
  CPUACCEL_INLINE static Vector scale(Vector a, Vector n) {
    return svscale_f32_x(all(), a, svcvt_s32_f32_x(all(), n));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
