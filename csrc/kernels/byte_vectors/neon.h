// NEON vector classes of 16 bytes, and of 8 for tails, with the operations that byte_vectors/avx2.h
// lists, except shuffles. Included with Arm's flags only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Bytes16 {
  using Vector = uint8x16_t;
  using Words = uint16x8_t;
  using Ints = int32x4_t;
  using Floats = float32x4_t;
  static constexpr int64_t kBytes = 16;

  CPUACCEL_INLINE static Vector load(const uint8_t* src) { return vld1q_u8(src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a) { vst1q_u8(dst, a); }
  CPUACCEL_INLINE static Words zero16() { return vdupq_n_u16(0); }
  CPUACCEL_INLINE static Vector set8(int a) { return vdupq_n_u8(static_cast<uint8_t>(a)); }
  CPUACCEL_INLINE static Words set16(int a) { return vdupq_n_u16(static_cast<uint16_t>(a)); }
  CPUACCEL_INLINE static Ints set32(int32_t a) { return vdupq_n_s32(a); }
  CPUACCEL_INLINE static Floats set_float(float a) { return vdupq_n_f32(a); }

  CPUACCEL_INLINE static Words bits_and16(Words a, Words b) { return vandq_u16(a, b); }
  CPUACCEL_INLINE static Vector bits_xor(Vector a, Vector b) { return veorq_u8(a, b); }
  CPUACCEL_INLINE static Vector max8(Vector a, Vector b) { return vmaxq_u8(a, b); }
  CPUACCEL_INLINE static Vector min8(Vector a, Vector b) { return vminq_u8(a, b); }

  CPUACCEL_INLINE static Words add16(Words a, Words b) { return vaddq_u16(a, b); }
  CPUACCEL_INLINE static Words add16_saturating(Words a, Words b) {
    return u16(vqaddq_s16(s16(a), s16(b)));
  }
  CPUACCEL_INLINE static Words subtract16(Words a, Words b) { return vsubq_u16(a, b); }
  CPUACCEL_INLINE static Words multiply16(Words a, Words b) { return vmulq_u16(a, b); }
  CPUACCEL_INLINE static Words multiply_high16(Words a, Words b) {
    return vuzp2q_u16(u16(vmull_u16(vget_low_u16(a), vget_low_u16(b))), u16(vmull_high_u16(a, b)));
  }
  CPUACCEL_INLINE static Words shift_right16(Words a, int bits) {
    return vshlq_u16(a, vdupq_n_s16(static_cast<int16_t>(-bits)));
  }
  CPUACCEL_INLINE static Words equal16(Words a, Words b) { return vceqq_u16(a, b); }
  CPUACCEL_INLINE static Ints add32(Ints a, Ints b) { return vaddq_s32(a, b); }

  CPUACCEL_INLINE static Words even8(Vector a) {
    return vandq_u16(vreinterpretq_u16_u8(a), vdupq_n_u16(0xff));
  }
  CPUACCEL_INLINE static Words odd8(Vector a) { return vshrq_n_u16(vreinterpretq_u16_u8(a), 8); }
  CPUACCEL_INLINE static Ints even16(Words a) {
    return s32(vandq_u32(vreinterpretq_u32_u16(a), vdupq_n_u32(0xffff)));
  }
  CPUACCEL_INLINE static Ints odd16(Words a) {
    return s32(vshrq_n_u32(vreinterpretq_u32_u16(a), 16));
  }
  CPUACCEL_INLINE static Vector join8(Words even, Words odd) {
    return vreinterpretq_u8_u16(vsliq_n_u16(even, odd, 8));
  }
  CPUACCEL_INLINE static Words zip16_low(Words a, Words b) { return vzip1q_u16(a, b); }
  CPUACCEL_INLINE static Words zip16_high(Words a, Words b) { return vzip2q_u16(a, b); }
  CPUACCEL_INLINE static Ints zip32_low(Ints a, Ints b) { return vzip1q_s32(a, b); }
  CPUACCEL_INLINE static Ints zip32_high(Ints a, Ints b) { return vzip2q_s32(a, b); }
  CPUACCEL_INLINE static Ints zip64_low(Ints a, Ints b) { return s32(vzip1q_s64(s64(a), s64(b))); }
  CPUACCEL_INLINE static Ints zip64_high(Ints a, Ints b) { return s32(vzip2q_s64(s64(a), s64(b))); }
  CPUACCEL_INLINE static Words widen_low8(Vector a) { return vmovl_u8(vget_low_u8(a)); }
  CPUACCEL_INLINE static Words widen_high8(Vector a) { return vmovl_high_u8(a); }
  CPUACCEL_INLINE static Ints widen_low16(Words a) { return s32(vmovl_u16(vget_low_u16(a))); }
  CPUACCEL_INLINE static Ints widen_high16(Words a) { return s32(vmovl_high_u16(a)); }
  CPUACCEL_INLINE static Ints products_low16(Words a, Words b) {
    return vmull_s16(vget_low_s16(s16(a)), vget_low_s16(s16(b)));
  }
  CPUACCEL_INLINE static Ints products_high16(Words a, Words b) {
    return vmull_high_s16(s16(a), s16(b));
  }
  CPUACCEL_INLINE static Words pack32(Ints a, Ints b) {
    return u16(vqmovn_high_s32(vqmovn_s32(a), b));
  }
  CPUACCEL_INLINE static Vector pack16(Words a, Words b) {
    return vqmovun_high_s16(vqmovun_s16(s16(a)), s16(b));
  }

  CPUACCEL_INLINE static Floats to_floats(Ints a) { return vcvtq_f32_s32(a); }
  CPUACCEL_INLINE static Ints rounded(Floats a) { return vcvtnq_s32_f32(a); }
  CPUACCEL_INLINE static Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
  CPUACCEL_INLINE static Floats multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
  CPUACCEL_INLINE static Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }

 private:
  CPUACCEL_INLINE static Words u16(int16x8_t a) { return vreinterpretq_u16_s16(a); }
  CPUACCEL_INLINE static Words u16(uint32x4_t a) { return vreinterpretq_u16_u32(a); }
  CPUACCEL_INLINE static int16x8_t s16(Words a) { return vreinterpretq_s16_u16(a); }
  CPUACCEL_INLINE static Ints s32(uint32x4_t a) { return vreinterpretq_s32_u32(a); }
  CPUACCEL_INLINE static Ints s32(int64x2_t a) { return vreinterpretq_s32_s64(a); }
  CPUACCEL_INLINE static int64x2_t s64(Ints a) { return vreinterpretq_s64_s32(a); }
};

// The low half of a vector.
struct Bytes8 : Bytes16 {
  static constexpr int64_t kBytes = 8;
  CPUACCEL_INLINE static Vector load(const uint8_t* src) {
    return vcombine_u8(vld1_u8(src), vdup_n_u8(0));
  }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a) { vst1_u8(dst, vget_low_u8(a)); }
};

}  // namespace
}  // namespace cpuaccel::kernels
