// Vector classes of floats that can load and store their first lanes only. Included with the flags
// of their ISA only.
#pragma once

#include "kernels/float_vectors/avx2.h"
#if defined(__AVX512F__)
#include "kernels/float_vectors/avx512.h"
#endif

namespace cpuaccel::kernels {
namespace {

struct PartialFloats8 : Floats8 {
  CPUACCEL_INLINE static Vector load_first(const float* src, int64_t count) {
    return load(src, mask(count));
  }
  // Stores the first `count` < 8 floats. Masked stores are slow, two overlapping stores are not.
  CPUACCEL_INLINE static void store_first(float* dst, Vector v, int64_t count) {
    if (count >= 4) {
      const auto first = _mm256_set1_epi32(static_cast<int>(count - 4));
      const __m256i lanes = _mm256_add_epi32(first, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      _mm_storeu_ps(dst, _mm256_castps256_ps128(v));
      _mm_storeu_ps(dst + count - 4, _mm256_castps256_ps128(_mm256_permutevar8x32_ps(v, lanes)));
    } else {
      float floats[kLanes];
      store(floats, v);
      for (int64_t i = 0; i < count; ++i) {
        dst[i] = floats[i];
      }
    }
  }
};

#if defined(__AVX512F__)
struct PartialFloats16 : Floats16 {
  CPUACCEL_INLINE static Vector load_first(const float* src, int64_t count) {
    return load(src, mask(count));
  }
  CPUACCEL_INLINE static void store_first(float* dst, Vector v, int64_t count) {
    store(dst, v, mask(count));
  }
};
#endif

}  // namespace
}  // namespace cpuaccel::kernels
