#include <arm_neon.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_arm64_neon(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  const uint8x16_t lower = vdupq_n_u8(limits.low), upper = vdupq_n_u8(limits.high);
  const uint8x16_t flipped = vdupq_n_u8(limits.flipped_bits);
  const auto limited = [&](uint8x16_t bytes) {
    return veorq_u8(vminq_u8(vmaxq_u8(veorq_u8(bytes, flipped), lower), upper), flipped);
  };
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const uint8x16_t first = vld1q_u8(src + i), second = vld1q_u8(src + i + 16);
    vst1q_u8(dst + i, limited(first));
    vst1q_u8(dst + i + 16, limited(second));
  }
  clamp_ref(src + i, dst + i, count - i, limits);
}

}  // namespace cpuaccel::kernels
