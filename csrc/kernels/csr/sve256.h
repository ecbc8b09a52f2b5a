// 256-bit SVE vector classes for graph kernels: eight floats or four doubles. Included with the
// flags of that vector length only.
#pragma once

#include "kernels/float_vectors/sve256.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

struct SveF32x8 : SveFloats8 {
  using Element = float;
  using Number = float;
  static constexpr int64_t kMostVectors = 8;

  CPUACCEL_INLINE static Vector load_numbers(const float* src) { return svld1_f32(all(), src); }
  CPUACCEL_INLINE static void store_numbers(float* dst, Vector v) { svst1_f32(all(), dst, v); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return svmul_f32_x(all(), a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return svdiv_f32_x(all(), a, b); }
  CPUACCEL_INLINE static float total(Vector v) { return svaddv_f32(all(), v); }
  CPUACCEL_INLINE static Mask larger_or_nan(Vector a, Vector b) {
    return svorr_b_z(all(), svcmpgt_f32(all(), a, b), svcmpuo_f32(all(), a, a));
  }
  CPUACCEL_INLINE static Mask equal(Vector a, Vector b) { return svcmpeq_f32(all(), a, b); }
  CPUACCEL_INLINE static Vector select(Mask taken, Vector a, Vector b) {
    return svsel_f32(taken, a, b);
  }
};

struct SveF64x4 {
  using Element = double;
  using Number = double;
  using Vector = svfloat64_t __attribute__((arm_sve_vector_bits(256)));
  using Mask = SveMask;
  static constexpr int64_t kLanes = 4;
  static constexpr int64_t kMostVectors = 8;

  CPUACCEL_INLINE static Mask all() { return svptrue_b64(); }
  CPUACCEL_INLINE static Vector set1(double value) { return svdup_f64(value); }
  CPUACCEL_INLINE static Vector load(const double* src) { return svld1_f64(all(), src); }
  CPUACCEL_INLINE static void store(double* dst, Vector v) { svst1_f64(all(), dst, v); }
  CPUACCEL_INLINE static Vector load_numbers(const double* src) { return load(src); }
  CPUACCEL_INLINE static void store_numbers(double* dst, Vector v) { store(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return svadd_f64_x(all(), a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return svmul_f64_x(all(), a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return svdiv_f64_x(all(), a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return svmla_f64_x(all(), c, a, b);
  }
  CPUACCEL_INLINE static double total(Vector v) { return svaddv_f64(all(), v); }
  CPUACCEL_INLINE static Mask larger_or_nan(Vector a, Vector b) {
    return svorr_b_z(all(), svcmpgt_f64(all(), a, b), svcmpuo_f64(all(), a, a));
  }
  CPUACCEL_INLINE static Mask equal(Vector a, Vector b) { return svcmpeq_f64(all(), a, b); }
  CPUACCEL_INLINE static Vector select(Mask taken, Vector a, Vector b) {
    return svsel_f64(taken, a, b);
  }
  CPUACCEL_INLINE static Mask mask(int64_t count) { return svwhilelt_b64_s64(0, count); }
  CPUACCEL_INLINE static Vector load(const double* src, Mask m) { return svld1_f64(m, src); }
  CPUACCEL_INLINE static void store(double* dst, Vector v, Mask m) { svst1_f64(m, dst, v); }
};

// Eight 16-bit floats, each in the low half of a 32-bit lane when loaded and stored. Half converts
// them to and from f32.
template <typename Half>
struct SveHalfx8 : SveF32x8 {
  using Element = uint16_t;
  static constexpr int64_t kMostVectors = 4;

  CPUACCEL_INLINE static float number(uint16_t value) { return Half::number(value); }
  CPUACCEL_INLINE static Vector load(const uint16_t* src) { return load(src, all()); }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v) { store(dst, v, all()); }
  CPUACCEL_INLINE static Vector load(const uint16_t* src, Mask m) {
    return Half::widened(svld1uh_u32(m, src));
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v, Mask m) {
    svst1h_u32(m, dst, Half::rounded(v));
  }
};

struct SveBf16s {
  CPUACCEL_INLINE static float number(uint16_t value) { return bf16_to_float(value); }
  CPUACCEL_INLINE static SveFloats widened(SveWords halves) {
    return svreinterpret_f32_u32(svlsl_n_u32_x(svptrue_b32(), halves, 16));
  }
  CPUACCEL_INLINE static SveWords rounded(SveFloats v) {
    return svreinterpret_u32_bf16(svcvt_bf16_f32_x(svptrue_b32(), v));
  }
};

struct SveF16s {
  CPUACCEL_INLINE static float number(uint16_t value) { return f16_to_float(value); }
  CPUACCEL_INLINE static SveFloats widened(SveWords halves) {
    return svcvt_f32_f16_x(svptrue_b32(), svreinterpret_f16_u32(halves));
  }
  CPUACCEL_INLINE static SveWords rounded(SveFloats v) {
    return svreinterpret_u32_f16(svcvt_f16_f32_x(svptrue_b32(), v));
  }
};

using SveBf16x8 = SveHalfx8<SveBf16s>;
using SveF16x8 = SveHalfx8<SveF16s>;

}  // namespace
}  // namespace cpuaccel::kernels
