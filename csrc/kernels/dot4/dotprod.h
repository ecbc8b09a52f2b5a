// Dot products of four bytes by Arm's SDOT (s8 x s8): source bytes are u8 minus 128. See avx2.h.
#pragma once

#include "kernels/dot4/neon.h"

namespace cpuaccel::kernels {
namespace {

struct DotprodDot4 : Neon {
  static constexpr int kSourceOffset = 128;

  CPUACCEL_INLINE static void expand(Int bytes, Int* parts) { *parts = to_signed(bytes); }
  CPUACCEL_INLINE static void expand_weights(Int bytes, Int* parts) { *parts = bytes; }
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    return vdotq_s32(acc, vreinterpretq_s8_s32(taps), vreinterpretq_s8_s32(weights));
  }

  CPUACCEL_INLINE static Int load_steps(const uint8_t* from) { return to_signed(load(from)); }
  template <int kStep>
  CPUACCEL_INLINE static Int dot_step(Int acc, Int sources, Int weights) {
    return in_place(
        vdotq_laneq_s32(acc, vreinterpretq_s8_s32(weights), vreinterpretq_s8_s32(sources), kStep));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
