// NEON vector classes for graph kernels: four floats or two doubles. Included with Arm's flags
// only.
#pragma once

#include "kernels/float_vectors/neon.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

struct GraphF32x4 : Floats4 {
  using Element = float;
  using Number = float;
  static constexpr int64_t kMostVectors = 8;

  CPUACCEL_INLINE static Vector load_numbers(const float* src) { return vld1q_f32(src); }
  CPUACCEL_INLINE static void store_numbers(float* dst, Vector v) { vst1q_f32(dst, v); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return vmulq_f32(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return vdivq_f32(a, b); }
  CPUACCEL_INLINE static float total(Vector v) { return vaddvq_f32(v); }
  CPUACCEL_INLINE static uint32x4_t larger_or_nan(Vector a, Vector b) {
    return vornq_u32(vcgtq_f32(a, b), vceqq_f32(a, a));
  }
  CPUACCEL_INLINE static uint32x4_t equal(Vector a, Vector b) { return vceqq_f32(a, b); }
  CPUACCEL_INLINE static Vector select(uint32x4_t taken, Vector a, Vector b) {
    return vbslq_f32(taken, a, b);
  }
};

struct GraphF64x2 {
  using Element = double;
  using Number = double;
  using Vector = float64x2_t;
  using Mask = int64_t;  // number of lanes, 0 to 2
  static constexpr int64_t kLanes = 2;
  static constexpr int64_t kMostVectors = 8;

  CPUACCEL_INLINE static Vector set1(double value) { return vdupq_n_f64(value); }
  CPUACCEL_INLINE static Vector load(const double* src) { return vld1q_f64(src); }
  CPUACCEL_INLINE static void store(double* dst, Vector v) { vst1q_f64(dst, v); }
  CPUACCEL_INLINE static Vector load_numbers(const double* src) { return vld1q_f64(src); }
  CPUACCEL_INLINE static void store_numbers(double* dst, Vector v) { vst1q_f64(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return vaddq_f64(a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return vmulq_f64(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return vdivq_f64(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) { return vfmaq_f64(c, a, b); }
  CPUACCEL_INLINE static double total(Vector v) { return vaddvq_f64(v); }
  CPUACCEL_INLINE static uint64x2_t larger_or_nan(Vector a, Vector b) {
    return vornq_u64(vcgtq_f64(a, b), vceqq_f64(a, a));
  }
  CPUACCEL_INLINE static uint64x2_t equal(Vector a, Vector b) { return vceqq_f64(a, b); }
  CPUACCEL_INLINE static Vector select(uint64x2_t taken, Vector a, Vector b) {
    return vbslq_f64(taken, a, b);
  }
  CPUACCEL_INLINE static Mask mask(int64_t count) {
    return count < 0 ? 0 : count < kLanes ? count : kLanes;
  }
  CPUACCEL_INLINE static Vector load(const double* src, Mask m) {
    return m == 0 ? set1(0) : m == 1 ? vcombine_f64(vld1_f64(src), vdup_n_f64(0)) : load(src);
  }
  CPUACCEL_INLINE static void store(double* dst, Vector v, Mask m) {
    if (m == 1) {
      vst1q_lane_f64(dst, v, 0);
    } else if (m == 2) {
      store(dst, v);
    }
  }
};

// Four 16-bit floats. Half converts them to and from f32.
template <typename Half>
struct GraphHalfx4 : GraphF32x4 {
  static constexpr int64_t kMostVectors = 4;
  using Element = uint16_t;

  CPUACCEL_INLINE static float number(uint16_t value) { return Half::number(value); }
  CPUACCEL_INLINE static Vector load(const uint16_t* src) { return Half::widened(vld1_u16(src)); }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v) { vst1_u16(dst, Half::rounded(v)); }
  CPUACCEL_INLINE static Vector load(const uint16_t* src, Mask m) {
    const uint16x4_t zeros = vdup_n_u16(0);
    switch (m) {
      case 0:
        return set1(0);
      case 1:
        return Half::widened(vld1_lane_u16(src, zeros, 0));
      case 2:
        return Half::widened(two(src, zeros));
      case 3:
        return Half::widened(vld1_lane_u16(src + 2, two(src, zeros), 2));
      default:
        return load(src);
    }
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v, Mask m) {
    const uint16x4_t halves = Half::rounded(v);
    switch (m) {
      case 0:
        return;
      case 1:
        return vst1_lane_u16(dst, halves, 0);
      case 2:
        return store_two(dst, halves);
      case 3:
        store_two(dst, halves);
        return vst1_lane_u16(dst + 2, halves, 2);
      default:
        return store(dst, v);
    }
  }

 private:
  CPUACCEL_INLINE static uint16x4_t two(const uint16_t* src, uint16x4_t others) {
    return vld1_lane_u16(src + 1, vld1_lane_u16(src, others, 0), 1);
  }
  CPUACCEL_INLINE static void store_two(uint16_t* dst, uint16x4_t halves) {
    vst1_lane_u16(dst, halves, 0);
    vst1_lane_u16(dst + 1, halves, 1);
  }
};

struct Bf16s {
  CPUACCEL_INLINE static float number(uint16_t value) { return bf16_to_float(value); }
  CPUACCEL_INLINE static float32x4_t widened(uint16x4_t halves) {
    return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
  }
  CPUACCEL_INLINE static float32x4_t widened_high(uint16x8_t halves) {
    return vreinterpretq_f32_u32(vshll_high_n_u16(halves, 16));
  }
  CPUACCEL_INLINE static uint16x4_t rounded(float32x4_t v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t sum = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    return vbsl_u16(vmovn_u32(vceqq_f32(v, v)), vshrn_n_u32(sum, 16), vdup_n_u16(0x7fc0));
  }
};

struct F16s {
  CPUACCEL_INLINE static float number(uint16_t value) {
    return vgetq_lane_f32(widened(vdup_n_u16(value)), 0);
  }
  CPUACCEL_INLINE static float32x4_t widened(uint16x4_t halves) {
    return vcvt_f32_f16(vreinterpret_f16_u16(halves));
  }
  CPUACCEL_INLINE static float32x4_t widened_high(uint16x8_t halves) {
    return vcvt_high_f32_f16(vreinterpretq_f16_u16(halves));
  }
  CPUACCEL_INLINE static uint16x4_t rounded(float32x4_t v) {
    return vreinterpret_u16_f16(vcvt_f16_f32(v));
  }
};

using GraphBf16x4 = GraphHalfx4<Bf16s>;
using GraphF16x4 = GraphHalfx4<F16s>;

}  // namespace
}  // namespace cpuaccel::kernels
