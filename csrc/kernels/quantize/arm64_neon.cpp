#include <arm_neon.h>

#include <algorithm>

#include "kernels/inline.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBytes = 16;

struct Quantizer {
  float32x4_t inverse_scale, before;
  int32x4_t after;
  int16x8_t offset;
  uint8x16_t flipped;

  explicit Quantizer(const QuantizeBy& by)
      : inverse_scale(vdupq_n_f32(by.inverse_scale)),
        before(vdupq_n_f32(by.before)),
        after(vdupq_n_s32(by.after)),
        offset(vdupq_n_s16(by.offset)),
        flipped(vdupq_n_u8(by.offset)) {}

  // The conversion saturates, but it turns a NaN into 0. So vminnm first replaces a NaN with the
  // limit.
  CPUACCEL_INLINE int16x4_t rounded(float32x4_t real) const {
    const float32x4_t value = vfmaq_f32(before, real, inverse_scale);
    const float32x4_t limited = vminnmq_f32(value, vdupq_n_f32(kQuantizeLimit));
    return vqmovn_s32(vaddq_s32(vcvtnq_s32_f32(limited), after));
  }
  CPUACCEL_INLINE uint8x8_t bytes(float32x4_t a, float32x4_t b) const {
    return vqmovun_s16(vqaddq_s16(vcombine_s16(rounded(a), rounded(b)), offset));
  }
  CPUACCEL_INLINE void operator()(const float32x4x4_t& reals, uint8_t* dst) const {
    const uint8x16_t all =
        vcombine_u8(bytes(reals.val[0], reals.val[1]), bytes(reals.val[2], reals.val[3]));
    vst1q_u8(dst, veorq_u8(all, flipped));
  }
};

struct Plain {
  const float* src;
  void copy(int64_t count, float* to) const { std::copy_n(src, count, to); }
  CPUACCEL_INLINE float32x4x4_t read(int64_t i) const { return vld1q_f32_x4(src + i); }
};

struct Scaled {
  const float* src;
  const float* factors;
  void copy(int64_t count, float* to) const {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = src[i] * factors[i];
    }
  }
  CPUACCEL_INLINE float32x4x4_t read(int64_t i) const {
    float32x4x4_t reals = vld1q_f32_x4(src + i);
    const float32x4x4_t f = vld1q_f32_x4(factors + i);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      reals.val[j] = vmulq_f32(reals.val[j], f.val[j]);
    }
    return reals;
  }
};

template <typename Source>
void quantize_all(const Source& source, uint8_t* dst, int64_t count, const Quantizer& quantize) {
  if (count >= kBytes) {
    for (int64_t i = 0; i < count - kBytes; i += kBytes) {
      quantize(source.read(i), dst + i);
    }
    quantize(source.read(count - kBytes), dst + count - kBytes);  // may overlap the block before
    return;
  }
  float padded[kBytes] = {};
  uint8_t result[kBytes];
  source.copy(count, padded);
  quantize(Plain{padded}.read(0), result);
  std::copy_n(result, count, dst);
}

}  // namespace

void quantize_arm64_neon(const float* src, uint8_t* dst, int64_t count, const QuantizeBy& by) {
  quantize_all(Plain{src}, dst, count, Quantizer(by));
}

void quantize_scaled_arm64_neon(const float* src, const float* factors, uint8_t* dst, int64_t count,
                                const QuantizeBy& by) {
  quantize_all(Scaled{src, factors}, dst, count, Quantizer(by));
}

}  // namespace cpuaccel::kernels
