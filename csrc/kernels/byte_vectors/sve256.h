// 256-bit SVE vector class of 32 bytes, with a few of the operations that byte_vectors/avx2.h
// lists. Included with the flags of that vector length only.
#pragma once

#include <arm_sve.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct SveBytes32 {
  // Types of fixed length, so that they can be elements of arrays.
  using Vector = svuint8_t __attribute__((arm_sve_vector_bits(256)));
  using Mask = svbool_t __attribute__((arm_sve_vector_bits(256)));
  static constexpr int64_t kBytes = 32;

  CPUACCEL_INLINE static Mask all() { return svptrue_b8(); }
  CPUACCEL_INLINE static Vector load(const uint8_t* src) { return svld1_u8(all(), src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a) { svst1_u8(all(), dst, a); }
  CPUACCEL_INLINE static Vector set8(int a) { return svdup_u8(static_cast<uint8_t>(a)); }
  CPUACCEL_INLINE static Vector bits_xor(Vector a, Vector b) { return sveor_u8_x(all(), a, b); }
  CPUACCEL_INLINE static Vector max8(Vector a, Vector b) { return svmax_u8_x(all(), a, b); }
  CPUACCEL_INLINE static Vector min8(Vector a, Vector b) { return svmin_u8_x(all(), a, b); }

  // The first `count` lanes, 0 to 32.
  CPUACCEL_INLINE static Mask mask(int64_t count) { return svwhilelt_b8_s64(0, count); }
  CPUACCEL_INLINE static Vector load(const uint8_t* src, Mask m) { return svld1_u8(m, src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a, Mask m) { svst1_u8(m, dst, a); }
};

}  // namespace
}  // namespace cpuaccel::kernels
