// Packs lines side by side in runs of 4 bytes. Included by Arm's sources only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/half_neon.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/line_bytes_neon.h"

namespace cpuaccel::kernels {
namespace {

// Stores the first `runs` of four runs of four lines.
CPUACCEL_INLINE void store_runs_of_four(const uint8x16_t (&lines)[4], uint8_t* dst, int64_t run,
                                        int64_t runs) {
  float32x4_t dwords[4];
  CPUACCEL_UNROLL
  for (int i = 0; i < 4; ++i) {
    dwords[i] = vreinterpretq_f32_u8(lines[i]);
  }
  Lanes4::transpose(dwords);
  CPUACCEL_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (i < runs) {
      vst1q_u8(dst + i * run, vreinterpretq_u8_f32(dwords[i]));
    }
  }
}

// `width` is a multiple of four.
void lines_of_4(const QgemmLines& lines, int64_t width) {
  const uint8x16_t flip = vdupq_n_u8(lines.flip);
  const int64_t K = lines.K, run = 4 * width;
  for (int64_t line = 0; line < width; line += 4) {
    const uint8_t* from[4];
    CPUACCEL_UNROLL
    for (int i = 0; i < 4; ++i) {
      from[i] = line_at(lines, line + i);
    }
    auto* dst = reinterpret_cast<uint8_t*>(lines.dst) + 4 * line;
    uint8x16_t four[4];
    int64_t k = 0;
    for (; k + 16 <= K; k += 16, dst += 4 * run) {
      CPUACCEL_UNROLL
      for (int i = 0; i < 4; ++i) {
        four[i] = line_bytes(from[i] + k, flip);
      }
      store_runs_of_four(four, dst, run, 4);
    }
    if (k < K) {
      CPUACCEL_UNROLL
      for (int i = 0; i < 4; ++i) {
        four[i] = last_line_bytes(from[i] + k, K - k, flip);
      }
      store_runs_of_four(four, dst, run, (K - k + 3) / 4);
    }
  }
}

// For one or two lines. Writes four runs at a time: a tile's memory has room for more lines.
void few_lines_of_4(const QgemmLines& lines) {
  const uint8x16_t flip = vdupq_n_u8(lines.flip);
  const int64_t K = lines.K;
  const uint8_t* first = line_at(lines, 0);
  const uint8_t* second = line_at(lines, 1);
  const bool single = lines.count == 1;
  auto* dst = reinterpret_cast<uint8_t*>(lines.dst);
  for (int64_t k = 0; k < K; k += 16) {
    const bool whole = k + 16 <= K;
    const uint8x16_t a =
        whole ? line_bytes(first + k, flip) : last_line_bytes(first + k, K - k, flip);
    if (single) {
      vst1q_u8(dst + k, a);
      continue;
    }
    const uint8x16_t b =
        whole ? line_bytes(second + k, flip) : last_line_bytes(second + k, K - k, flip);
    const uint32x4_t low = vreinterpretq_u32_u8(a), high = vreinterpretq_u32_u8(b);
    vst1q_u8(dst + 2 * k, vreinterpretq_u8_u32(vzip1q_u32(low, high)));
    vst1q_u8(dst + 2 * k + 16, vreinterpretq_u8_u32(vzip2q_u32(low, high)));
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
