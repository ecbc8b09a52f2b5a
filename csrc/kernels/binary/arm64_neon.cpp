#include <arm_neon.h>

#include "kernels/binary/vectors.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Neon {
  using Bytes = uint8x16_t;
  using Floats = float32x4_t;
  static constexpr int64_t kBytes = 16;

  CPUACCEL_INLINE static Bytes bytes(uint16x8_t x) { return vreinterpretq_u8_u16(x); }
  CPUACCEL_INLINE static Bytes bytes(int16x8_t x) { return vreinterpretq_u8_s16(x); }
  CPUACCEL_INLINE static Bytes bytes(uint32x4_t x) { return vreinterpretq_u8_u32(x); }
  CPUACCEL_INLINE static Bytes bytes(int32x4_t x) { return vreinterpretq_u8_s32(x); }
  CPUACCEL_INLINE static int16x8_t words(Bytes x) { return vreinterpretq_s16_u8(x); }

  CPUACCEL_INLINE static Bytes load(const uint8_t* src) { return vld1q_u8(src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Bytes value) { vst1q_u8(dst, value); }
  CPUACCEL_INLINE static Bytes low8(Bytes x) { return bytes(vmovl_u8(vget_low_u8(x))); }
  CPUACCEL_INLINE static Bytes high8(Bytes x) { return bytes(vmovl_high_u8(x)); }
  CPUACCEL_INLINE static Bytes low16(Bytes x) {
    return bytes(vmovl_u16(vget_low_u16(vreinterpretq_u16_u8(x))));
  }
  CPUACCEL_INLINE static Bytes high16(Bytes x) {
    return bytes(vmovl_high_u16(vreinterpretq_u16_u8(x)));
  }
  CPUACCEL_INLINE static Bytes product_low(Bytes a, Bytes b) {
    return bytes(vmull_s16(vget_low_s16(words(a)), vget_low_s16(words(b))));
  }
  CPUACCEL_INLINE static Bytes product_high(Bytes a, Bytes b) {
    return bytes(vmull_high_s16(words(a), words(b)));
  }
  CPUACCEL_INLINE static Bytes subtract16(Bytes a, Bytes b) {
    return bytes(vsubq_s16(words(a), words(b)));
  }
  CPUACCEL_INLINE static Floats to_floats(Bytes x) {
    return vcvtq_f32_s32(vreinterpretq_s32_u8(x));
  }
  CPUACCEL_INLINE static Bytes fill16(int16_t value) { return bytes(vdupq_n_s16(value)); }
  CPUACCEL_INLINE static Bytes fill8(int8_t value) {
    return vdupq_n_u8(static_cast<uint8_t>(value));
  }
  CPUACCEL_INLINE static Floats fill(float value) { return vdupq_n_f32(value); }
  CPUACCEL_INLINE static Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  CPUACCEL_INLINE static Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
  CPUACCEL_INLINE static Floats multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
  CPUACCEL_INLINE static int16x8_t rounded(Floats a, Floats b) {
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
  }
  CPUACCEL_INLINE static Bytes pack(Floats a, Floats b, Floats c, Floats d, Bytes zero_point) {
    const uint8x8_t low = vqmovun_s16(vqaddq_s16(rounded(a, b), words(zero_point)));
    return vqmovun_high_s16(low, vqaddq_s16(rounded(c, d), words(zero_point)));
  }
  CPUACCEL_INLINE static Bytes max8(Bytes a, Bytes b) { return vmaxq_u8(a, b); }
};

}  // namespace

void add_arm64_neon(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Neon, Sum>(a, b, dst, count, q);
}

void mul_arm64_neon(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Neon, Product>(a, b, dst, count, q);
}

}  // namespace cpuaccel::kernels
