// Converts four f32, bf16 or f16 elements to floats and back, with NEON.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/half.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// The vector that elements of each type are loaded to.
struct Lanes4 {
  using Vector = float32x4_t;
  static constexpr int64_t kLanes = 4;
  CPUACCEL_INLINE static Vector load_floats(const float* src) { return vld1q_f32(src); }
  CPUACCEL_INLINE static void store_floats(float* dst, Vector v) { vst1q_f32(dst, v); }
  // Rows of r become columns.
  CPUACCEL_INLINE static void transpose(Vector (&r)[4]) {
    const float64x2_t even_low = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t odd_low = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t even_high = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t odd_high = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(even_low, even_high));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(odd_low, odd_high));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(even_low, even_high));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(odd_low, odd_high));
  }
};

struct F32Elements : Lanes4 {
  using Element = float;
  CPUACCEL_INLINE static Vector load(const float* src) { return vld1q_f32(src); }
  CPUACCEL_INLINE static float load1(const float* src) { return *src; }
  CPUACCEL_INLINE static void store(float* dst, Vector v) { vst1q_f32(dst, v); }
  CPUACCEL_INLINE static void store1(float* dst, float v) { *dst = v; }
};

struct Bf16Elements : Lanes4 {
  using Element = uint16_t;
  CPUACCEL_INLINE static Vector load(const uint16_t* src) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(src), 16));
  }
  CPUACCEL_INLINE static float load1(const uint16_t* src) { return bf16_to_float(*src); }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t number = vceqq_f32(v, v);
    vst1_u16(dst, vshrn_n_u32(vbslq_u32(number, rounded, vdupq_n_u32(0x7fc00000)), 16));
  }
  CPUACCEL_INLINE static void store1(uint16_t* dst, float v) { *dst = float_to_bf16(v); }
};

struct F16Elements : Lanes4 {
  using Element = uint16_t;
  CPUACCEL_INLINE static Vector load(const uint16_t* src) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src)));
  }
  CPUACCEL_INLINE static float load1(const uint16_t* src) { return f16_to_float(*src); }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v) {
    vst1_u16(dst, vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
  CPUACCEL_INLINE static void store1(uint16_t* dst, float v) { *dst = float_to_f16(v); }
};

struct Elements4 {
  using F32 = F32Elements;
  using Bf16 = Bf16Elements;
  using F16 = F16Elements;
};

}  // namespace
}  // namespace cpuaccel::kernels
