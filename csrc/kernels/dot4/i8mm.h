// Dot products of four bytes by Arm's USDOT and SUDOT (u8 x s8); see avx2.h. Also products of 2 x 8
// by 8 x 2 bytes (USMMLA), for qconv/matrix.h.
#pragma once

#include "kernels/dot4/neon.h"

namespace cpuaccel::kernels {
namespace {

struct I8mmDot4 : Neon {
  static constexpr int kSourceOffset = 0;

  CPUACCEL_INLINE static void expand(Int bytes, Int* parts) { *parts = bytes; }
  CPUACCEL_INLINE static void expand_weights(Int bytes, Int* parts) { *parts = bytes; }
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    return vusdotq_s32(acc, vreinterpretq_u8_s32(taps), vreinterpretq_s8_s32(weights));
  }

  CPUACCEL_INLINE static Int load_steps(const uint8_t* from) { return load(from); }
  template <int kStep>
  CPUACCEL_INLINE static Int dot_step(Int acc, Int sources, Int weights) {
    return in_place(vsudotq_laneq_s32(acc, vreinterpretq_s8_s32(weights),
                                      vreinterpretq_u8_s32(sources), kStep));
  }

  // block[row][column] += row `row` of sources times column `column` of weights, 8 bytes each.
  CPUACCEL_INLINE static Int matrix_product(Int block, Int sources, Int weights) {
    return in_place(
        vusmmlaq_s32(block, vreinterpretq_u8_s32(sources), vreinterpretq_s8_s32(weights)));
  }
  CPUACCEL_INLINE static Int low_halves(Int a, Int b) {
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
  }
  CPUACCEL_INLINE static Int high_halves(Int a, Int b) {
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
  }
  CPUACCEL_INLINE static Int low_dwords(Int a, Int b) { return vzip1q_s32(a, b); }
  CPUACCEL_INLINE static Int high_dwords(Int a, Int b) { return vzip2q_s32(a, b); }
};

}  // namespace
}  // namespace cpuaccel::kernels
