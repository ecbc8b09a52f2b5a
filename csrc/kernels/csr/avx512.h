// AVX-512 vector classes for graph kernels: sixteen floats or eight doubles. Included with
// AVX-512's flags only.
#pragma once

#include <immintrin.h>

#include "kernels/csr/avx2.h"
#include "kernels/csr/beside_wider.h"
#include "kernels/float_vectors/avx512.h"

namespace cpuaccel::kernels {
namespace {

struct GraphF32x16 : Floats16 {
  using Element = float;
  using Number = float;
  static constexpr int64_t kMostVectors = 8;  // fewer for other types: each is code to compile

  CPUACCEL_INLINE static Vector load_numbers(const float* src) { return _mm512_loadu_ps(src); }
  CPUACCEL_INLINE static void store_numbers(float* dst, Vector v) { _mm512_storeu_ps(dst, v); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  CPUACCEL_INLINE static float total(Vector v) { return _mm512_reduce_add_ps(v); }
  CPUACCEL_INLINE static __mmask16 larger_or_nan(Vector a, Vector b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) | _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  }
  CPUACCEL_INLINE static __mmask16 equal(Vector a, Vector b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
  }
  CPUACCEL_INLINE static Vector select(__mmask16 taken, Vector a, Vector b) {
    return _mm512_mask_blend_ps(taken, b, a);
  }
};

struct GraphF64x8 {
  using Element = double;
  using Number = double;
  using Vector = __m512d;
  using Mask = __mmask8;
  static constexpr int64_t kLanes = 8;
  static constexpr int64_t kMostVectors = 4;

  CPUACCEL_INLINE static Vector set1(double value) { return _mm512_set1_pd(value); }
  CPUACCEL_INLINE static Vector load(const double* src) { return _mm512_loadu_pd(src); }
  CPUACCEL_INLINE static void store(double* dst, Vector v) { _mm512_storeu_pd(dst, v); }
  CPUACCEL_INLINE static Vector load_numbers(const double* src) { return _mm512_loadu_pd(src); }
  CPUACCEL_INLINE static void store_numbers(double* dst, Vector v) { _mm512_storeu_pd(dst, v); }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return _mm512_add_pd(a, b); }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return _mm512_mul_pd(a, b); }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return _mm512_div_pd(a, b); }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_pd(a, b, c);
  }
  CPUACCEL_INLINE static double total(Vector v) { return _mm512_reduce_add_pd(v); }
  CPUACCEL_INLINE static __mmask8 larger_or_nan(Vector a, Vector b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ) | _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q);
  }
  CPUACCEL_INLINE static __mmask8 equal(Vector a, Vector b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ);
  }
  CPUACCEL_INLINE static Vector select(__mmask8 taken, Vector a, Vector b) {
    return _mm512_mask_blend_pd(taken, b, a);
  }
  CPUACCEL_INLINE static Mask mask(int64_t count) {
    return static_cast<Mask>((uint32_t{1} << count) - 1);
  }
  CPUACCEL_INLINE static Vector load(const double* src, Mask m) {
    return _mm512_maskz_loadu_pd(m, src);
  }
  CPUACCEL_INLINE static void store(double* dst, Vector v, Mask m) {
    _mm512_mask_storeu_pd(dst, m, v);
  }
};

// Sixteen 16-bit floats. Half converts them to and from f32.
template <typename Half>
struct GraphHalfx16 : GraphF32x16 {
  using Element = uint16_t;
  static constexpr int64_t kMostVectors = 4;

  CPUACCEL_INLINE static float number(uint16_t value) { return Half::number(value); }
  CPUACCEL_INLINE static Vector load(const uint16_t* src) {
    return Half::widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(src)));
  }
  CPUACCEL_INLINE static Vector load(const uint16_t* src, Mask m) {
    return Half::widened(_mm256_maskz_loadu_epi16(m, src));
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), Half::rounded(v));
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v, Mask m) {
    _mm256_mask_storeu_epi16(dst, m, Half::rounded(v));
  }
};

struct Bf16s {
  CPUACCEL_INLINE static float number(uint16_t value) { return bf16_to_float(value); }
  CPUACCEL_INLINE static __m512 widened(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  CPUACCEL_INLINE static __m256i rounded(__m512 v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i top = _mm512_mask_mov_epi32(sum, nan, _mm512_set1_epi32(0x7fc00000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(top, 16));
  }
};

struct F16s {
  CPUACCEL_INLINE static float number(uint16_t value) { return f16_to_float(value); }
  CPUACCEL_INLINE static __m512 widened(__m256i halves) { return _mm512_cvtph_ps(halves); }
  CPUACCEL_INLINE static __m256i rounded(__m512 v) {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
  }
};

using GraphBf16x16 = GraphHalfx16<Bf16s>;
using GraphF16x16 = GraphHalfx16<F16s>;

}  // namespace
}  // namespace cpuaccel::kernels
