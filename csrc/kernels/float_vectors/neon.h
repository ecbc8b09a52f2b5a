// NEON vector class of four floats. Included with Arm's flags only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Floats4 {
  using Vector = float32x4_t;
  // NEON has no masked loads and stores: a mask is a number of lanes, 0 to 4.
  using Mask = int64_t;
  static constexpr int64_t kLanes = 4;

  CPUACCEL_INLINE static Vector set1(float value) { return vdupq_n_f32(value); }
  CPUACCEL_INLINE static Vector load(const float* src) { return vld1q_f32(src); }
  CPUACCEL_INLINE static void store(float* dst, Vector v) { vst1q_f32(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return vaddq_f32(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }

  CPUACCEL_INLINE static Mask mask(int64_t count) {
    return count < 0 ? 0 : count < kLanes ? count : kLanes;
  }
  CPUACCEL_INLINE static Vector load(const float* src, Mask m) {
    switch (m) {
      case 0:
        return vdupq_n_f32(0.0f);
      case 1:
        return vld1q_lane_f32(src, vdupq_n_f32(0.0f), 0);
      case 2:
        return vcombine_f32(vld1_f32(src), vdup_n_f32(0.0f));
      case 3:
        return vcombine_f32(vld1_f32(src), vld1_lane_f32(src + 2, vdup_n_f32(0.0f), 0));
      default:
        return load(src);
    }
  }
  CPUACCEL_INLINE static void store(float* dst, Vector v, Mask m) {
    switch (m) {
      case 0:
        return;
      case 1:
        return vst1q_lane_f32(dst, v, 0);
      case 2:
        return vst1_f32(dst, vget_low_f32(v));
      case 3:
        vst1_f32(dst, vget_low_f32(v));
        return vst1q_lane_f32(dst + 2, v, 2);
      default:
        return store(dst, v);
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
