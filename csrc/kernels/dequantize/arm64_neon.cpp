#include <arm_neon.h>

#include "kernels/dequantize/dequantize.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

CPUACCEL_INLINE void store8(float* dst, uint16x8_t wrapped, float scale) {
  const int16x8_t steps = vreinterpretq_s16_u16(wrapped);
  vst1q_f32(dst, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(steps))), scale));
  vst1q_f32(dst + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(steps)), scale));
}

}  // namespace

void dequantize_arm64_neon(const uint8_t* src, float* dst, int64_t count, float scale,
                           int32_t zero_point, uint8_t flipped_bits) {
  const uint8x16_t offset = vdupq_n_u8(static_cast<uint8_t>(zero_point));
  const uint8x16_t flipped = vdupq_n_u8(flipped_bits);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t bytes = veorq_u8(vld1q_u8(src + i), flipped);
    store8(dst + i, vsubl_u8(vget_low_u8(bytes), vget_low_u8(offset)), scale);
    store8(dst + i + 8, vsubl_high_u8(bytes, offset), scale);
  }
  dequantize_ref(src + i, dst + i, count - i, scale, zero_point, flipped_bits);
}

}  // namespace cpuaccel::kernels
