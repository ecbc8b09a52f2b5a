#include <immintrin.h>

#include "kernels/maxpool_f32/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Windows8 {
  static constexpr int64_t kLanes = 8;

  CPUACCEL_INLINE static __m256 set1(float value) { return _mm256_set1_ps(value); }
  template <int kStride>
  CPUACCEL_INLINE static __m256 taps(const float* src) {
    if constexpr (kStride == 1) {
      return _mm256_loadu_ps(src);
    } else {
      // The second vector begins one float early, so that it ends with the last tap.
      const __m256 low = _mm256_loadu_ps(src), high = _mm256_loadu_ps(src + 7);
      const __m256 even = _mm256_shuffle_ps(low, high, 0xd8);  // 0 2 | 8 10 || 4 6 | 12 14
      return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
    }
  }
  template <int kStride>
  CPUACCEL_INLINE static __m256i places(int64_t at) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i steps = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(kStride));
    return _mm256_add_epi32(steps, _mm256_set1_epi32(static_cast<int>(at)));
  }

  struct Largest {
    __m256 value;
    __m256i place;

    CPUACCEL_INLINE void add(__m256 taps, __m256i at) {
      const __m256 larger = _mm256_or_ps(_mm256_cmp_ps(taps, value, _CMP_GT_OQ),
                                         _mm256_cmp_ps(taps, taps, _CMP_UNORD_Q));
      value = _mm256_blendv_ps(value, taps, larger);
      place = _mm256_blendv_epi8(place, at, _mm256_castps_si256(larger));
    }
    CPUACCEL_INLINE void store(float* dst, int64_t* indices) const {
      _mm256_storeu_ps(dst, value);
      const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(place));
      const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(place, 1));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices), low);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices + 4), high);
    }
  };
};

}  // namespace

void maxpool_f32_x86_avx2(const MaxpoolF32Shape& s, const float* src, float* dst,
                          int64_t* indices) {
  maxpool_f32_by<Windows8>(s, src, dst, indices);
}

}  // namespace cpuaccel::kernels
