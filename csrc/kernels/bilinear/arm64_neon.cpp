#include <arm_neon.h>

#include "kernels/bilinear/bilinear.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Floats8 {
  float32x4_t low, high;

  CPUACCEL_INLINE static Floats8 of_bytes(const uint8_t* src) {
    const uint16x8_t wide = vmovl_u8(vld1_u8(src));
    return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), vcvtq_f32_u32(vmovl_high_u16(wide))};
  }
  CPUACCEL_INLINE static Floats8 load(const float* src) {
    return {vld1q_f32(src), vld1q_f32(src + 4)};
  }
  CPUACCEL_INLINE void store(float* dst) const {
    vst1q_f32(dst, low);
    vst1q_f32(dst + 4, high);
  }
  CPUACCEL_INLINE Floats8 minus(float32x4_t other) const {
    return {vsubq_f32(low, other), vsubq_f32(high, other)};
  }
  // Rounded to nearest even, plus `odd`, clamped.
  CPUACCEL_INLINE uint8x8_t bytes(int16x8_t odd) const {
    const int16x4_t words = vqmovn_s32(vcvtnq_s32_f32(low));
    return vqmovun_s16(vqaddq_s16(vqmovn_high_s32(words, vcvtnq_s32_f32(high)), odd));
  }
};

struct Mix {
  float first_weight, second_weight;

  CPUACCEL_INLINE float32x4_t of(float32x4_t first, float32x4_t second) const {
    return vfmaq_n_f32(vmulq_n_f32(first, first_weight), second, second_weight);
  }
  CPUACCEL_INLINE Floats8 of(const Floats8& first, const Floats8& second) const {
    return {of(first.low, second.low), of(first.high, second.high)};
  }
};

}  // namespace

void bilinear_arm64_neon(const BilinearCall& call, const uint8_t* image, int64_t oh,
                         uint8_t* dst_row, float* between) {
  const int64_t C = call.C;
  if (C < 8) {
    bilinear_ref(call, image, oh, dst_row, between);
    return;
  }
  const BilinearTap& row = call.rows[oh];
  const int64_t count = call.W * C;
  const uint8_t* upper = image + row.first * count;
  const uint8_t* lower = image + row.second * count;
  const Mix of_rows{row.first_weight, row.second_weight};
  for (int64_t next = 0; next < count; next += 8) {
    const int64_t i = next + 8 <= count ? next : count - 8;
    const Floats8 mixed = of_rows.of(Floats8::of_bytes(upper + i), Floats8::of_bytes(lower + i));
    mixed.minus(vdupq_n_f32(static_cast<float>(call.odd))).store(between + i);
  }
  for (int64_t ow = 0; ow < call.OW; ++ow, dst_row += C) {
    const BilinearTap& tap = call.columns[ow];
    const float* left = between + tap.first * C;
    const float* right = between + tap.second * C;
    const Mix of_columns{tap.first_weight, tap.second_weight};
    for (int64_t next = 0; next < C; next += 8) {
      const int64_t c = next + 8 <= C ? next : C - 8;  // some channels twice
      const Floats8 mixed = of_columns.of(Floats8::load(left + c), Floats8::load(right + c));
      vst1_u8(dst_row + c, mixed.bytes(vdupq_n_s16(static_cast<int16_t>(call.odd))));
    }
  }
}

}  // namespace cpuaccel::kernels
