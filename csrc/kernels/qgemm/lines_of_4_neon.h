// Lines side by side in runs of 4 bytes. Included by Arm's sources only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/half_neon.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/line_bytes_neon.h"

namespace cpuaccel::kernels {
namespace {

// Four lines' runs from k on, of which `runs` are there.
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

// Of a multiple of four lines.
void lines_of_4(const QgemmLines& lines, int64_t width) {
  const LineBytes bytes(lines);
  const int64_t run = 4 * width;
  for (int64_t line = 0; line < width; line += 4) {
    auto* dst = reinterpret_cast<uint8_t*>(lines.dst) + 4 * line;
    uint8x16_t four[4];
    int64_t k = 0;
    for (; k + 16 <= lines.K; k += 16, dst += 4 * run) {
      CPUACCEL_UNROLL
      for (int i = 0; i < 4; ++i) {
        four[i] = bytes.whole(line + i, k);
      }
      store_runs_of_four(four, dst, run, 4);
    }
    if (k < lines.K) {
      for (int i = 0; i < 4; ++i) {
        four[i] = bytes.part(line + i, k);
      }
      store_runs_of_four(four, dst, run, (lines.K - k + 3) / 4);
    }
  }
}

// Of one line or two. Writes four runs at a time: a tile's memory has room for more lines.
void few_lines_of_4(const QgemmLines& lines) {
  const LineBytes bytes(lines);
  auto* dst = reinterpret_cast<uint8_t*>(lines.dst);
  for (int64_t k = 0; k < lines.K; k += 16) {
    const bool whole = k + 16 <= lines.K;
    const uint8x16_t first = whole ? bytes.whole(0, k) : bytes.part(0, k);
    if (lines.count == 1) {
      vst1q_u8(dst + k, first);
      continue;
    }
    const uint8x16_t second = whole ? bytes.whole(1, k) : bytes.part(1, k);
    const uint32x4_t a = vreinterpretq_u32_u8(first), b = vreinterpretq_u32_u8(second);
    vst1q_u8(dst + 2 * k, vreinterpretq_u8_u32(vzip1q_u32(a, b)));
    vst1q_u8(dst + 2 * k + 16, vreinterpretq_u8_u32(vzip2q_u32(a, b)));
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
