// Vectors of floats for the templates of this family; only included with their ISA's flags.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Avx2Floats {
  using Type = __m256;
  static constexpr int64_t kWidth = 8;
  CPUACCEL_INLINE static Type load(const float* src) { return _mm256_loadu_ps(src); }
  CPUACCEL_INLINE static Type all(float value) { return _mm256_set1_ps(value); }
  CPUACCEL_INLINE static Type multiply_add(Type a, Type b, Type sum) {
    return _mm256_fmadd_ps(a, b, sum);
  }
  CPUACCEL_INLINE static void store(float* dst, Type value) { _mm256_storeu_ps(dst, value); }
  CPUACCEL_INLINE static __m256i mask(int64_t count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
  }
  CPUACCEL_INLINE static Type load(const float* src, int64_t count) {
    return _mm256_maskload_ps(src, mask(count));
  }
  // The first `count` < 8 floats: masked stores are slow, two overlapping ones are not.
  CPUACCEL_INLINE static void store(float* dst, Type value, int64_t count) {
    if (count >= 4) {
      const auto first = _mm256_set1_epi32(static_cast<int>(count - 4));
      const __m256i lanes = _mm256_add_epi32(first, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      _mm_storeu_ps(dst, _mm256_castps256_ps128(value));
      _mm_storeu_ps(dst + count - 4,
                    _mm256_castps256_ps128(_mm256_permutevar8x32_ps(value, lanes)));
    } else {
      float floats[kWidth];
      _mm256_storeu_ps(floats, value);
      for (int64_t i = 0; i < count; ++i) {
        dst[i] = floats[i];
      }
    }
  }
};

#if defined(__AVX512F__)
struct Avx512Floats {
  using Type = __m512;
  static constexpr int64_t kWidth = 16;
  CPUACCEL_INLINE static Type load(const float* src) { return _mm512_loadu_ps(src); }
  CPUACCEL_INLINE static Type all(float value) { return _mm512_set1_ps(value); }
  CPUACCEL_INLINE static Type multiply_add(Type a, Type b, Type sum) {
    return _mm512_fmadd_ps(a, b, sum);
  }
  CPUACCEL_INLINE static void store(float* dst, Type value) { _mm512_storeu_ps(dst, value); }
  CPUACCEL_INLINE static __mmask16 mask(int64_t count) {
    return static_cast<__mmask16>((1u << count) - 1u);
  }
  CPUACCEL_INLINE static Type load(const float* src, int64_t count) {
    return _mm512_maskz_loadu_ps(mask(count), src);
  }
  CPUACCEL_INLINE static void store(float* dst, Type value, int64_t count) {
    _mm512_mask_storeu_ps(dst, mask(count), value);
  }
};
#endif

}  // namespace
}  // namespace cpuaccel::kernels
