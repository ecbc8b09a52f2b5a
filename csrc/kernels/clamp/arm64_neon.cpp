#include <arm_neon.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_arm64_neon(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low, uint8_t high) {
  const uint8x16_t lower = vdupq_n_u8(low), upper = vdupq_n_u8(high);
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const uint8x16_t first = vld1q_u8(src + i), second = vld1q_u8(src + i + 16);
    vst1q_u8(dst + i, vminq_u8(vmaxq_u8(first, lower), upper));
    vst1q_u8(dst + i + 16, vminq_u8(vmaxq_u8(second, lower), upper));
  }
  clamp_ref(src + i, dst + i, count - i, low, high);
}

}  // namespace cpuaccel::kernels
