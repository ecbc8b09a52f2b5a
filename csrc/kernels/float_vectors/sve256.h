// 256-bit SVE vector class of eight floats. Included with the flags of that vector length only.
#pragma once

#include <arm_sve.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Types of fixed length, so that they can be members and elements of arrays.
using SveFloats = svfloat32_t __attribute__((arm_sve_vector_bits(256)));
using SveInts = svint32_t __attribute__((arm_sve_vector_bits(256)));
using SveWords = svuint32_t __attribute__((arm_sve_vector_bits(256)));
using SveMask = svbool_t __attribute__((arm_sve_vector_bits(256)));

struct SveFloats8 {
  using Vector = SveFloats;
  using Mask = SveMask;
  static constexpr int64_t kLanes = 8;

  CPUACCEL_INLINE static Mask all() { return svptrue_b32(); }
  CPUACCEL_INLINE static Vector set1(float value) { return svdup_f32(value); }
  CPUACCEL_INLINE static Vector load(const float* src) { return svld1_f32(all(), src); }
  CPUACCEL_INLINE static void store(float* dst, Vector v) { svst1_f32(all(), dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return svadd_f32_x(all(), a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return svmla_f32_x(all(), c, a, b);
  }

  // The first `count` lanes, 0 to 8.
  CPUACCEL_INLINE static Mask mask(int64_t count) { return svwhilelt_b32_s64(0, count); }
  CPUACCEL_INLINE static Vector load(const float* src, Mask m) { return svld1_f32(m, src); }
  CPUACCEL_INLINE static void store(float* dst, Vector v, Mask m) { svst1_f32(m, dst, v); }
};

}  // namespace
}  // namespace cpuaccel::kernels
