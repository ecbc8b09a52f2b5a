// Lines side by side in runs of 8 bytes. Included by Arm's sources only.
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

// Runs of 8 bytes of `width` lines, an even number.
void lines_of_8(const QgemmLines& lines, int64_t width) {
  const LineBytes bytes(lines);
  const int64_t run = 8 * width;
  for (int64_t line = 0; line < width; line += 2) {
    auto* dst = reinterpret_cast<uint8_t*>(lines.dst) + 8 * line;
    int64_t k = 0;
    for (; k + 16 <= lines.K; k += 16, dst += 2 * run) {
      const uint8x16_t a = bytes.whole(line, k), b = bytes.whole(line + 1, k);
      vst1q_u8(dst, low_halves(a, b));
      vst1q_u8(dst + run, high_halves(a, b));
    }
    if (k < lines.K) {
      const uint8x16_t a = bytes.part(line, k), b = bytes.part(line + 1, k);
      vst1q_u8(dst, low_halves(a, b));
      if (k + 8 < lines.K) {
        vst1q_u8(dst + run, high_halves(a, b));
      }
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
