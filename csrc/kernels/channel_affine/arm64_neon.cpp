#include <arm_neon.h>

#include "kernels/channel_affine/channel_affine.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Constants {
  explicit Constants(const ChannelAffine& affine)
      : factor(affine.factor),
        offset(affine.offset),
        src_zero_point(vdup_n_u8(static_cast<uint8_t>(affine.src_zero_point))),
        dst_zero_point(vdupq_n_s16(static_cast<int16_t>(affine.dst_zero_point))),
        lowest(vdup_n_u8(static_cast<uint8_t>(affine.lowest))) {}
  const float* factor;
  const float* offset;
  uint8x8_t src_zero_point;
  int16x8_t dst_zero_point;
  uint8x8_t lowest;
};

// Channels [c, c + 4), rounded, without dst_zero_point.
CPUACCEL_INLINE int32x4_t steps4(const Constants& k, int32x4_t centered, int64_t c) {
  return vcvtnq_s32_f32(
      vfmaq_f32(vld1q_f32(k.offset + c), vld1q_f32(k.factor + c), vcvtq_f32_s32(centered)));
}

CPUACCEL_INLINE void eight(const Constants& k, const uint8_t* src, int64_t c, uint8_t* dst) {
  const int16x8_t centered = vreinterpretq_s16_u16(vsubl_u8(vld1_u8(src + c), k.src_zero_point));
  const int16x4_t low = vqmovn_s32(steps4(k, vmovl_s16(vget_low_s16(centered)), c));
  const int16x8_t steps = vqmovn_high_s32(low, steps4(k, vmovl_high_s16(centered), c + 4));
  vst1_u8(dst + c, vmax_u8(vqmovun_s16(vqaddq_s16(steps, k.dst_zero_point)), k.lowest));
}

}  // namespace

void channel_affine_arm64_neon(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst,
                               int64_t P) {
  const int64_t C = affine.C;
  if (C < 8) {
    channel_affine_ref(affine, src, dst, P);
    return;
  }
  const Constants k(affine);
  for (int64_t p = 0; p < P; ++p) {
    for (int64_t next = 0; next < C; next += 8) {
      eight(k, src, next + 8 <= C ? next : C - 8, dst);  // some channels twice
    }
    src += C;
    dst += C;
  }
}

}  // namespace cpuaccel::kernels
