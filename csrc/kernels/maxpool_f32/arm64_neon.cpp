#include <arm_neon.h>

#include "kernels/maxpool_f32/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Windows4 {
  static constexpr int64_t kLanes = 4;

  CPUACCEL_INLINE static float32x4_t set1(float value) { return vdupq_n_f32(value); }
  template <int kStride>
  CPUACCEL_INLINE static float32x4_t taps(const float* src) {
    if constexpr (kStride == 1) {
      return vld1q_f32(src);
    } else {
      // The second vector begins one float early, so that it ends with the last tap.
      const float32x4_t low = vld1q_f32(src), high = vld1q_f32(src + 3);
      return vuzp1q_f32(low, vextq_f32(high, high, 1));
    }
  }
  template <int kStride>
  CPUACCEL_INLINE static int32x4_t places(int64_t at) {
    const int32_t steps[kLanes] = {0, kStride, 2 * kStride, 3 * kStride};
    return vaddq_s32(vld1q_s32(steps), vdupq_n_s32(static_cast<int32_t>(at)));
  }

  struct Largest {
    float32x4_t value;
    int32x4_t place;

    CPUACCEL_INLINE void add(float32x4_t taps, int32x4_t at) {
      const uint32x4_t larger = vornq_u32(vcgtq_f32(taps, value), vceqq_f32(taps, taps));
      value = vbslq_f32(larger, taps, value);
      place = vbslq_s32(larger, at, place);
    }
    CPUACCEL_INLINE void store(float* dst, int64_t* indices) const {
      vst1q_f32(dst, value);
      vst1q_s64(indices, vmovl_s32(vget_low_s32(place)));
      vst1q_s64(indices + 2, vmovl_high_s32(place));
    }
  };
};

}  // namespace

void maxpool_f32_arm64_neon(const MaxpoolF32Shape& s, const float* src, float* dst,
                            int64_t* indices) {
  maxpool_f32_by<Windows4>(s, src, dst, indices);
}

}  // namespace cpuaccel::kernels
