#include <arm_neon.h>

#include "kernels/peaks/peak_kernels.h"
#include "kernels/peaks/repeat_neon.h"

namespace cpuaccel::kernels {

int64_t peak_fp32_arm64_neon(int64_t iterations) {
  const float32x4_t a = opaque(vdupq_n_f32(1.0f)), b = opaque(vdupq_n_f32(0.0f));
  return repeat<float32x4_t>(iterations, 4, [=](float32x4_t sum) { return vfmaq_f32(sum, a, b); });
}

void peak_read_arm64_neon(const std::byte* src, std::byte* /*dst*/, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 32
    for (int64_t part = 0; part < 512; part += 16) {
      const uint8x16_t value = vld1q_u8(reinterpret_cast<const uint8_t*>(src + i + part));
      CPUACCEL_USED("w", value);
    }
  }
}

void peak_copy_arm64_neon(const std::byte* src, std::byte* dst, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 32
    for (int64_t part = 0; part < 512; part += 16) {
      uint8x16_t value = vld1q_u8(reinterpret_cast<const uint8_t*>(src + i + part));
      CPUACCEL_OPAQUE("w", value);
      vst1q_u8(reinterpret_cast<uint8_t*>(dst + i + part), value);
    }
  }
}

}  // namespace cpuaccel::kernels
