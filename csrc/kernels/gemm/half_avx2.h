// Converts eight f32, bf16 or f16 elements to floats and back, with AVX2 and F16C.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/half.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// The vector that elements of each type are loaded to.
struct Lanes8 {
  using Vector = __m256;
  static constexpr int64_t kLanes = 8;
  CPUACCEL_INLINE static Vector load_floats(const float* src) { return _mm256_loadu_ps(src); }
  CPUACCEL_INLINE static void store_floats(float* dst, Vector v) { _mm256_storeu_ps(dst, v); }
  // Rows of r become columns.
  CPUACCEL_INLINE static void transpose(Vector (&r)[8]) {
    __m256 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
      r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
  }
};

struct F32Elements : Lanes8 {
  using Element = float;
  CPUACCEL_INLINE static __m256 load(const float* src) { return _mm256_loadu_ps(src); }
  CPUACCEL_INLINE static float load1(const float* src) { return *src; }
  CPUACCEL_INLINE static void store(float* dst, __m256 v) { _mm256_storeu_ps(dst, v); }
  CPUACCEL_INLINE static void store1(float* dst, float v) { *dst = v; }
};

struct Bf16Elements : Lanes8 {
  using Element = uint16_t;
  // Sixteen elements: those at even indices, then those at odd ones.
  CPUACCEL_INLINE static void load_two(const uint16_t* src, __m256 (&dst)[2]) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
    dst[0] = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    dst[1] = _mm256_castsi256_ps(
        _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }
  CPUACCEL_INLINE static __m256 load(const uint16_t* src) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  CPUACCEL_INLINE static float load1(const uint16_t* src) { return bf16_to_float(*src); }
  CPUACCEL_INLINE static void store(uint16_t* dst, __m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i top = _mm256_srli_epi32(
        _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc00000), _mm256_castps_si256(nan)), 16);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(dst),
        _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1)));
  }
  CPUACCEL_INLINE static void store1(uint16_t* dst, float v) { *dst = float_to_bf16(v); }
};

struct F16Elements : Lanes8 {
  using Element = uint16_t;
  CPUACCEL_INLINE static void load_two(const uint16_t* src, __m256 (&dst)[2]) {
    dst[0] = load(src);
    dst[1] = load(src + 8);
  }
  CPUACCEL_INLINE static __m256 load(const uint16_t* src) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
  }
  CPUACCEL_INLINE static float load1(const uint16_t* src) { return f16_to_float(*src); }
  CPUACCEL_INLINE static void store(uint16_t* dst, __m256 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  CPUACCEL_INLINE static void store1(uint16_t* dst, float v) { *dst = float_to_f16(v); }
};

struct Elements8 {
  using F32 = F32Elements;
  using Bf16 = Bf16Elements;
  using F16 = F16Elements;
};

// dst[0 .. 4) = the sums of the lanes of a, b, c and d.
CPUACCEL_INLINE void store_lane_sums(float* dst, __m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  _mm_storeu_ps(dst, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}

}  // namespace
}  // namespace cpuaccel::kernels
