// Packs lines side by side in runs of 8 bytes. Included by Arm's sources only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/inline.h"
#include "kernels/qgemm/line_bytes_neon.h"

namespace cpuaccel::kernels {
namespace {

CPUACCEL_INLINE uint8x16_t low_halves(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
CPUACCEL_INLINE uint8x16_t high_halves(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}

// `width` is even.
void lines_of_8(const QgemmLines& lines, int64_t width) {
  const uint8x16_t flip = vdupq_n_u8(lines.flip);
  const int64_t K = lines.K, run = 8 * width;
  for (int64_t line = 0; line < width; line += 2) {
    const uint8_t* a = line_at(lines, line);
    const uint8_t* b = line_at(lines, line + 1);
    auto* dst = reinterpret_cast<uint8_t*>(lines.dst) + 8 * line;
    int64_t k = 0;
    for (; k + 16 <= K; k += 16, dst += 2 * run) {
      const uint8x16_t first = line_bytes(a + k, flip), second = line_bytes(b + k, flip);
      vst1q_u8(dst, low_halves(first, second));
      vst1q_u8(dst + run, high_halves(first, second));
    }
    if (k < K) {
      const uint8x16_t first = last_line_bytes(a + k, K - k, flip);
      const uint8x16_t second = last_line_bytes(b + k, K - k, flip);
      vst1q_u8(dst, low_halves(first, second));
      if (k + 8 < K) {
        vst1q_u8(dst + run, high_halves(first, second));
      }
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
