// Vectors of bf16 pairs as two vectors of floats: elements at even positions and at odd ones.
// Included with Arm's flags only.
#pragma once

#include <cstdint>

#include "kernels/float_vectors/exp_neon.h"

namespace cpuaccel::kernels {
namespace {

struct Pairs4 : ExpFloats4 {
  using Pairs = uint32x4_t;

  CPUACCEL_INLINE static Pairs load_pairs(const uint16_t* src) {
    return vreinterpretq_u32_u16(vld1q_u16(src));
  }
  CPUACCEL_INLINE static Vector even(Pairs pairs) {
    return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
  }
  CPUACCEL_INLINE static Vector odd(Pairs pairs) {
    return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000)));
  }
  // Rounds to nearest, ties away from zero.
  CPUACCEL_INLINE static void store_pairs(uint16_t* dst, Vector even, Vector odd) {
    const uint32x4_t half = vdupq_n_u32(0x8000);
    store_highs(dst, vaddq_u32(vreinterpretq_u32_f32(even), half),
                vaddq_u32(vreinterpretq_u32_f32(odd), half));
  }
  // Rounds to nearest even, as torch does.
  CPUACCEL_INLINE static void store_pairs_to_even(uint16_t* dst, Vector even, Vector odd) {
    store_highs(dst, rounded_to_even(even), rounded_to_even(odd));
  }

 private:
  CPUACCEL_INLINE static uint32x4_t rounded_to_even(Vector v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(vaddq_u32(bits, last), vdupq_n_u32(0x7fff));
  }
  CPUACCEL_INLINE static void store_highs(uint16_t* dst, uint32x4_t even, uint32x4_t odd) {
    vst1q_u16(dst, vreinterpretq_u16_u32(vsriq_n_u32(odd, even, 16)));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
