#include <arm_neon.h>

#include "kernels/avgpool/window.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Vectors of 16-bit lanes, unless a function says otherwise.
struct Neon {
  using Type = uint16x8_t;
  using Floats = float32x4_t;
  static constexpr int64_t kBytes = 16;

  CPUACCEL_INLINE static Type words(uint32x4_t a) { return vreinterpretq_u16_u32(a); }
  CPUACCEL_INLINE static Type words(int32x4_t a) { return vreinterpretq_u16_s32(a); }
  CPUACCEL_INLINE static Type words(int16x8_t a) { return vreinterpretq_u16_s16(a); }
  CPUACCEL_INLINE static Type words(uint8x16_t a) { return vreinterpretq_u16_u8(a); }
  CPUACCEL_INLINE static int16x8_t s16(Type a) { return vreinterpretq_s16_u16(a); }
  CPUACCEL_INLINE static uint32x4_t u32(Type a) { return vreinterpretq_u32_u16(a); }
  CPUACCEL_INLINE static int32x4_t s32(Type a) { return vreinterpretq_s32_u16(a); }
  CPUACCEL_INLINE static uint64x2_t u64(Type a) { return vreinterpretq_u64_u16(a); }

  CPUACCEL_INLINE static Type load(const uint8_t* src) { return words(vld1q_u8(src)); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Type a) {
    vst1q_u8(dst, vreinterpretq_u8_u16(a));
  }
  CPUACCEL_INLINE static Type zero() { return vdupq_n_u16(0); }
  CPUACCEL_INLINE static Type fill16(int a) { return vdupq_n_u16(static_cast<uint16_t>(a)); }
  CPUACCEL_INLINE static Type fill32(int32_t a) { return words(vdupq_n_s32(a)); }
  CPUACCEL_INLINE static Floats fill(float a) { return vdupq_n_f32(a); }
  CPUACCEL_INLINE static Type low8(Type a) { return vandq_u16(a, vdupq_n_u16(0xff)); }
  CPUACCEL_INLINE static Type high8(Type a) { return vshrq_n_u16(a, 8); }
  CPUACCEL_INLINE static Type low16(Type a) {
    return words(vandq_u32(u32(a), vdupq_n_u32(0xffff)));
  }
  CPUACCEL_INLINE static Type high16(Type a) { return words(vshrq_n_u32(u32(a), 16)); }
  CPUACCEL_INLINE static Type add16(Type a, Type b) { return vaddq_u16(a, b); }
  CPUACCEL_INLINE static Type add16_saturating(Type a, Type b) {
    return words(vqaddq_s16(s16(a), s16(b)));
  }
  CPUACCEL_INLINE static Type subtract16(Type a, Type b) { return vsubq_u16(a, b); }
  CPUACCEL_INLINE static Type multiply16(Type a, Type b) { return vmulq_u16(a, b); }
  CPUACCEL_INLINE static Type multiply_high16(Type a, Type b) {
    const uint32x4_t low = vmull_u16(vget_low_u16(a), vget_low_u16(b));
    return vuzp2q_u16(words(low), words(vmull_high_u16(a, b)));
  }
  CPUACCEL_INLINE static Type shift_right16(Type a, int bits) {
    return vshlq_u16(a, vdupq_n_s16(static_cast<int16_t>(-bits)));
  }
  CPUACCEL_INLINE static Type equal16(Type a, Type b) { return vceqq_u16(a, b); }
  CPUACCEL_INLINE static Type bits_and(Type a, Type b) { return vandq_u16(a, b); }
  // Interleaves even and odd bytes, each in a 16-bit lane.
  CPUACCEL_INLINE static Type zip8(Type even, Type odd) { return vsliq_n_u16(even, odd, 8); }
  CPUACCEL_INLINE static Type add32(Type a, Type b) { return words(vaddq_u32(u32(a), u32(b))); }
  CPUACCEL_INLINE static Type zip16_low(Type a, Type b) { return vzip1q_u16(a, b); }
  CPUACCEL_INLINE static Type zip16_high(Type a, Type b) { return vzip2q_u16(a, b); }
  CPUACCEL_INLINE static Type zip32_low(Type a, Type b) {
    return words(vzip1q_u32(u32(a), u32(b)));
  }
  CPUACCEL_INLINE static Type zip32_high(Type a, Type b) {
    return words(vzip2q_u32(u32(a), u32(b)));
  }
  CPUACCEL_INLINE static Type zip64_low(Type a, Type b) {
    return vreinterpretq_u16_u64(vzip1q_u64(u64(a), u64(b)));
  }
  CPUACCEL_INLINE static Type zip64_high(Type a, Type b) {
    return vreinterpretq_u16_u64(vzip2q_u64(u64(a), u64(b)));
  }
  CPUACCEL_INLINE static Type pack32(Type a, Type b) {
    return words(vqmovn_high_s32(vqmovn_s32(s32(a)), s32(b)));
  }
  CPUACCEL_INLINE static Type pack16(Type a, Type b) {
    return words(vqmovun_high_s16(vqmovun_s16(s16(a)), s16(b)));
  }
  CPUACCEL_INLINE static Floats to_floats(Type a) { return vcvtq_f32_s32(s32(a)); }
  CPUACCEL_INLINE static Type rounded(Floats a) { return words(vcvtnq_s32_f32(a)); }
  CPUACCEL_INLINE static Floats multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
  CPUACCEL_INLINE static Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
};

struct NeonHalf : Neon {
  static constexpr int64_t kBytes = 8;
  CPUACCEL_INLINE static Type load(const uint8_t* src) {
    return words(vcombine_u8(vld1_u8(src), vdup_n_u8(0)));
  }
  CPUACCEL_INLINE static void store(uint8_t* dst, Type a) {
    vst1_u8(dst, vget_low_u8(vreinterpretq_u8_u16(a)));
  }
};

}  // namespace

void avgpool_arm64_neon(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                        int64_t channels) {
  if (channels < NeonHalf::kBytes) {
    return avgpool_ref(window, src, dst, channels);
  }
  if (channels < Neon::kBytes) {
    return average_two<NeonHalf>(window, src, dst, channels);
  }
  const Average<Neon> average{window};
  int64_t c = 0;
  for (; c + 4 * Neon::kBytes <= channels; c += 4 * Neon::kBytes) {
    average.run<4>(Neon(), src + c, dst + c);
  }
  for (; c < channels; c += Neon::kBytes) {
    const int64_t first = c + Neon::kBytes <= channels ? c : channels - Neon::kBytes;
    average.run<1>(Neon(), src + first, dst + first);
  }
}

}  // namespace cpuaccel::kernels
