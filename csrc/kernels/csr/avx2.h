// AVX2 vector classes for graph kernels: eight floats or four doubles. Included with AVX2's flags
// only.
#pragma once

#include <immintrin.h>

#include "kernels/float_vectors/avx2.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

struct GraphF32x8 : Floats8 {
  using Element = float;
  using Number = float;
  static constexpr int64_t kMostVectors = 8;

  CPUACCEL_INLINE static Vector load_numbers(const float* src) { return _mm256_loadu_ps(src); }
  CPUACCEL_INLINE static void store_numbers(float* dst, Vector v) { _mm256_storeu_ps(dst, v); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  CPUACCEL_INLINE static float total(Vector v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  CPUACCEL_INLINE static Vector larger_or_nan(Vector a, Vector b) {
    return _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ), _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  }
  CPUACCEL_INLINE static Vector equal(Vector a, Vector b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
  }
  CPUACCEL_INLINE static Vector select(Vector taken, Vector a, Vector b) {
    return _mm256_blendv_ps(b, a, taken);
  }
};

struct GraphF64x4 {
  using Element = double;
  using Number = double;
  using Vector = __m256d;
  using Mask = __m256i;
  static constexpr int64_t kLanes = 4;
  static constexpr int64_t kMostVectors = 4;

  CPUACCEL_INLINE static Vector set1(double value) { return _mm256_set1_pd(value); }
  CPUACCEL_INLINE static Vector load(const double* src) { return _mm256_loadu_pd(src); }
  CPUACCEL_INLINE static void store(double* dst, Vector v) { _mm256_storeu_pd(dst, v); }
  CPUACCEL_INLINE static Vector load_numbers(const double* src) { return _mm256_loadu_pd(src); }
  CPUACCEL_INLINE static void store_numbers(double* dst, Vector v) { _mm256_storeu_pd(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return _mm256_add_pd(a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm256_mul_pd(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm256_div_pd(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_pd(a, b, c);
  }
  CPUACCEL_INLINE static double total(Vector v) {
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
  }
  CPUACCEL_INLINE static Vector larger_or_nan(Vector a, Vector b) {
    return _mm256_or_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ), _mm256_cmp_pd(a, a, _CMP_UNORD_Q));
  }
  CPUACCEL_INLINE static Vector equal(Vector a, Vector b) {
    return _mm256_cmp_pd(a, b, _CMP_EQ_OQ);
  }
  CPUACCEL_INLINE static Vector select(Vector taken, Vector a, Vector b) {
    return _mm256_blendv_pd(b, a, taken);
  }
  CPUACCEL_INLINE static Mask mask(int64_t count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  CPUACCEL_INLINE static Vector load(const double* src, Mask m) {
    return _mm256_maskload_pd(src, m);
  }
  CPUACCEL_INLINE static void store(double* dst, Vector v, Mask m) {
    _mm256_maskstore_pd(dst, m, v);
  }
};

struct GraphF32x4 {
  using Element = float;
  using Number = float;
  using Vector = __m128;
  using Mask = __m128i;
  static constexpr int64_t kLanes = 4;
  static constexpr int64_t kMostVectors = 2;  // wider vectors handle the other columns

  CPUACCEL_INLINE static Vector set1(float value) { return _mm_set1_ps(value); }
  CPUACCEL_INLINE static Vector load(const float* src) { return _mm_loadu_ps(src); }
  CPUACCEL_INLINE static void store(float* dst, Vector v) { _mm_storeu_ps(dst, v); }
  CPUACCEL_INLINE static Vector load_numbers(const float* src) { return _mm_loadu_ps(src); }
  CPUACCEL_INLINE static void store_numbers(float* dst, Vector v) { _mm_storeu_ps(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return _mm_add_ps(a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm_mul_ps(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm_div_ps(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) { return _mm_fmadd_ps(a, b, c); }
  CPUACCEL_INLINE static Vector larger_or_nan(Vector a, Vector b) {
    return _mm_or_ps(_mm_cmp_ps(a, b, _CMP_GT_OQ), _mm_cmp_ps(a, a, _CMP_UNORD_Q));
  }
  CPUACCEL_INLINE static Vector equal(Vector a, Vector b) { return _mm_cmp_ps(a, b, _CMP_EQ_OQ); }
  CPUACCEL_INLINE static Vector select(Vector taken, Vector a, Vector b) {
    return _mm_blendv_ps(b, a, taken);
  }
  CPUACCEL_INLINE static Mask mask(int64_t count) {
    return _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int>(count)), _mm_setr_epi32(0, 1, 2, 3));
  }
  CPUACCEL_INLINE static Vector load(const float* src, Mask m) { return _mm_maskload_ps(src, m); }
  CPUACCEL_INLINE static void store(float* dst, Vector v, Mask m) { _mm_maskstore_ps(dst, m, v); }
};

struct GraphF64x2 {
  using Element = double;
  using Number = double;
  using Vector = __m128d;
  using Mask = __m128i;
  static constexpr int64_t kLanes = 2;
  static constexpr int64_t kMostVectors = 2;

  CPUACCEL_INLINE static Vector set1(double value) { return _mm_set1_pd(value); }
  CPUACCEL_INLINE static Vector load(const double* src) { return _mm_loadu_pd(src); }
  CPUACCEL_INLINE static void store(double* dst, Vector v) { _mm_storeu_pd(dst, v); }
  CPUACCEL_INLINE static Vector load_numbers(const double* src) { return _mm_loadu_pd(src); }
  CPUACCEL_INLINE static void store_numbers(double* dst, Vector v) { _mm_storeu_pd(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return _mm_add_pd(a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm_mul_pd(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm_div_pd(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) { return _mm_fmadd_pd(a, b, c); }
  CPUACCEL_INLINE static Vector larger_or_nan(Vector a, Vector b) {
    return _mm_or_pd(_mm_cmp_pd(a, b, _CMP_GT_OQ), _mm_cmp_pd(a, a, _CMP_UNORD_Q));
  }
  CPUACCEL_INLINE static Vector equal(Vector a, Vector b) { return _mm_cmp_pd(a, b, _CMP_EQ_OQ); }
  CPUACCEL_INLINE static Vector select(Vector taken, Vector a, Vector b) {
    return _mm_blendv_pd(b, a, taken);
  }
  CPUACCEL_INLINE static Mask mask(int64_t count) {
    return _mm_cmpgt_epi64(_mm_set1_epi64x(count), _mm_set_epi64x(1, 0));
  }
  CPUACCEL_INLINE static Vector load(const double* src, Mask m) { return _mm_maskload_pd(src, m); }
  CPUACCEL_INLINE static void store(double* dst, Vector v, Mask m) { _mm_maskstore_pd(dst, m, v); }
};

// There are no masked 16-bit loads: partial vectors go through eight elements on the stack.
template <typename Self>
struct GraphHalfx8 : GraphF32x8 {
  static constexpr int64_t kMostVectors = 4;
  using Element = uint16_t;
  using Mask = int64_t;

  CPUACCEL_INLINE static Mask mask(int64_t count) { return count; }
  CPUACCEL_INLINE static Vector load(const uint16_t* src) {
    return Self::widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
  }
  CPUACCEL_INLINE static Vector load(const uint16_t* src, Mask count) {
    alignas(16) uint16_t elements[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) {
      elements[i] = src[i];
    }
    return load(elements);
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), Self::rounded(v));
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v, Mask count) {
    alignas(16) uint16_t elements[kLanes];
    store(elements, v);
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = elements[i];
    }
  }
};

struct GraphBf16x8 : GraphHalfx8<GraphBf16x8> {
  CPUACCEL_INLINE static float number(uint16_t value) { return bf16_to_float(value); }
  CPUACCEL_INLINE static Vector widened(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  CPUACCEL_INLINE static __m128i rounded(Vector v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i top =
        _mm256_srli_epi32(_mm256_blendv_epi8(sum, _mm256_set1_epi32(0x7fc00000), nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
  }
};

struct GraphF16x8 : GraphHalfx8<GraphF16x8> {
  CPUACCEL_INLINE static float number(uint16_t value) { return f16_to_float(value); }
  CPUACCEL_INLINE static Vector widened(__m128i halves) { return _mm256_cvtph_ps(halves); }
  CPUACCEL_INLINE static __m128i rounded(Vector v) {
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
