// Exact dot products of four bytes on NEON: 16-bit products of s8 x s8 (SMULL), added in pairs to
// 32 bits (SADALP). Adding products before they are widened could overflow by one. See avx2.h for
// the interface.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/float_vectors/exp_neon.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Neon {
  using Floats = ExpFloats4;
  using Int = int32x4_t;
  using Float = float32x4_t;
  static constexpr int64_t kLanes = 4;
  static constexpr int64_t kBytes = 16;
  static constexpr int kParts = 1;
  static constexpr int kPixels = 4;  // with a whole block of channels, half of the registers
  static constexpr int kPixelsOfHalf = 4;
  static constexpr int kWide = 4;
  static constexpr int kSteps = 4;
  static constexpr int kResults = 16;

  CPUACCEL_INLINE static Int zero() { return vdupq_n_s32(0); }
  CPUACCEL_INLINE static Int set1(int32_t value) { return vdupq_n_s32(value); }
  CPUACCEL_INLINE static Int set1_u8(uint8_t value) {
    return vreinterpretq_s32_u8(vdupq_n_u8(value));
  }
  CPUACCEL_INLINE static Float set1(float value) { return vdupq_n_f32(value); }
  CPUACCEL_INLINE static Int load(const void* from) {
    return vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(from)));
  }
  CPUACCEL_INLINE static void store(void* to, Int value) {
    vst1q_u8(static_cast<uint8_t*>(to), vreinterpretq_u8_s32(value));
  }
  CPUACCEL_INLINE static Float load(const float* from) { return vld1q_f32(from); }
  CPUACCEL_INLINE static Int multiply(Int a, Int b) { return vmulq_s32(a, b); }
  CPUACCEL_INLINE static Int add(Int a, Int b) { return vaddq_s32(a, b); }
  CPUACCEL_INLINE static Int broadcast4(const uint8_t* from) {
    int32_t bytes = 0;
    std::memcpy(&bytes, from, sizeof(bytes));
    return vdupq_n_s32(bytes);
  }
  CPUACCEL_INLINE static Int broadcast16(const uint8_t* from) { return load(from); }
  CPUACCEL_INLINE static Int pick_dwords(Int values, Int picks) {
    // Dword i is bytes 4 * i, 4 * i + 1 and so on.
    const Int bytes = vmlaq_n_s32(vdupq_n_s32(0x03020100), picks, 0x04040404);
    return vreinterpretq_s32_u8(
        vqtbl1q_u8(vreinterpretq_u8_s32(values), vreinterpretq_u8_s32(bytes)));
  }
  CPUACCEL_INLINE static Float load_floats(const float* from, int64_t count) {
    return Floats::load(from, Floats::mask(count));
  }
  CPUACCEL_INLINE static Int shift_in_byte(Int value, Int before) {
    return vreinterpretq_s32_u32(vsliq_n_u32(vshrq_n_u32(vreinterpretq_u32_s32(before), 24),
                                             vreinterpretq_u32_s32(value), 8));
  }

  CPUACCEL_INLINE static Int load_bytes(const uint8_t* from, int64_t count, const uint8_t* end) {
    if (end - from >= kBytes) {
      return load(from);
    }
    uint8_t block[kBytes] = {};
    std::memcpy(block, from, static_cast<size_t>(count < kBytes ? count : kBytes));
    return load(block);
  }

  CPUACCEL_INLINE static Int spread(Int row) { return row; }
  CPUACCEL_INLINE static void interleave4(Int r0, Int r1, Int r2, Int r3, Int out[4]) {
    const uint8x16x2_t rows01 = vzipq_u8(vreinterpretq_u8_s32(r0), vreinterpretq_u8_s32(r1));
    const uint8x16x2_t rows23 = vzipq_u8(vreinterpretq_u8_s32(r2), vreinterpretq_u8_s32(r3));
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const uint16x8x2_t zipped =
          vzipq_u16(vreinterpretq_u16_u8(rows01.val[half]), vreinterpretq_u16_u8(rows23.val[half]));
      out[2 * half] = vreinterpretq_s32_u16(zipped.val[0]);
      out[2 * half + 1] = vreinterpretq_s32_u16(zipped.val[1]);
    }
  }

  struct Quantizer {
    int16x8_t zero_point;
    uint8x16_t low, high, flip;
    Quantizer(int32_t dst_zero_point, uint8_t dst_min, uint8_t dst_max, uint8_t dst_flip)
        : zero_point(vdupq_n_s16(static_cast<int16_t>(dst_zero_point))),
          low(vdupq_n_u8(dst_min)),
          high(vdupq_n_u8(dst_max)),
          flip(vdupq_n_u8(dst_flip)) {}
  };
  CPUACCEL_INLINE static Float to_real(Int acc, Float scale, Float bias) {
    return vfmaq_f32(bias, vcvtq_f32_s32(acc), scale);
  }
  CPUACCEL_INLINE static int16x8_t round_to_words(Float a, Float b) {
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
  }
  CPUACCEL_INLINE static Int quantize4(const Float real[4], const Quantizer& q) {
    const int16x8_t a = vqaddq_s16(round_to_words(real[0], real[1]), q.zero_point);
    const int16x8_t b = vqaddq_s16(round_to_words(real[2], real[3]), q.zero_point);
    uint8x16_t bytes = vqmovun_high_s16(vqmovun_s16(a), b);
    bytes = vminq_u8(vmaxq_u8(bytes, q.low), q.high);
    return vreinterpretq_s32_u8(veorq_u8(bytes, q.flip));
  }
  CPUACCEL_INLINE static void store_halves(uint8_t* first, uint8_t* second, Int bytes) {
    vst1_u8(first, vget_low_u8(vreinterpretq_u8_s32(bytes)));
    vst1_u8(second, vget_high_u8(vreinterpretq_u8_s32(bytes)));
  }
  CPUACCEL_INLINE static void store4(uint8_t* const to[4], Int bytes, const int64_t counts[4]) {
    if (counts[0] >= kLanes && counts[1] >= kLanes && counts[2] >= kLanes && counts[3] >= kLanes)
        [[likely]] {
      const int32_t quarters[4] = {vgetq_lane_s32(bytes, 0), vgetq_lane_s32(bytes, 1),
                                   vgetq_lane_s32(bytes, 2), vgetq_lane_s32(bytes, 3)};
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        std::memcpy(to[i], &quarters[i], sizeof(quarters[i]));
      }
      return;
    }
    uint8_t block[kBytes];
    store(block, bytes);
    for (int i = 0; i < 4; ++i) {
      std::memcpy(to[i], block + i * kLanes, static_cast<size_t>(counts[i]));
    }
  }
  CPUACCEL_INLINE static void store_floats(float* to, Float value, int64_t count) {
    Floats::store(to, value, Floats::mask(count));
  }

  // Keeps the sums in the order written; otherwise GCC moves accumulators between registers.
  CPUACCEL_INLINE static Int in_place(Int acc) {
    asm volatile("" : "+w"(acc));
    return acc;
  }

  // u8 minus 128.
  CPUACCEL_INLINE static Int to_signed(Int bytes) {
    return vreinterpretq_s32_u8(veorq_u8(vreinterpretq_u8_s32(bytes), vdupq_n_u8(0x80)));
  }
};

// A vector holds the first two bytes of all lanes, then their last two, so that neighboring
// products belong to one lane.
struct NeonDot4 : Neon {
  static constexpr int kSourceOffset = 128;

  CPUACCEL_INLINE static void expand(Int bytes, Int* parts) {
    expand_weights(to_signed(bytes), parts);
  }
  CPUACCEL_INLINE static void expand_weights(Int bytes, Int* parts) {
    const uint8x16_t halves = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
    *parts = vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(bytes), halves));
  }
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    return dot_halves(acc, vreinterpretq_s8_s32(taps), vreinterpretq_s8_s32(taps), weights);
  }

  CPUACCEL_INLINE static Int load_steps(const uint8_t* from) { return to_signed(load(from)); }
  template <int kStep>
  CPUACCEL_INLINE static Int dot_step(Int acc, Int sources, Int weights) {
    const int16x8_t pairs = vreinterpretq_s16_s32(sources);
    return dot_halves(acc, vreinterpretq_s8_s16(vdupq_laneq_s16(pairs, 2 * kStep)),
                      vreinterpretq_s8_s16(vdupq_laneq_s16(pairs, 2 * kStep + 1)), weights);
  }

 private:
  // Uses the low half of `first` and the high half of `last`.
  CPUACCEL_INLINE static Int dot_halves(Int acc, int8x16_t first, int8x16_t last, Int weights) {
    const int8x16_t w = vreinterpretq_s8_s32(weights);
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(first), vget_low_s8(w)));
    acc = vpadalq_s16(acc, vmull_high_s8(last, w));
    return acc;
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
