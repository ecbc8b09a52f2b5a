// Eight windows of a row at a time, for strides 1 and 2, wherever all their columns are inside; the
// others one by one.
#include <immintrin.h>

#include "kernels/maxpool_f32/window.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kLanes = 8;

// src[0], src[kStride], ...; reads nothing past the last of the eight.
template <int kStride>
CPUACCEL_INLINE __m256 taps(const float* src) {
  if constexpr (kStride == 1) {
    return _mm256_loadu_ps(src);
  } else {
    // The second vector begins a float early, so that it ends with the last tap.
    const __m256 low = _mm256_loadu_ps(src), high = _mm256_loadu_ps(src + 7);
    const __m256 even = _mm256_shuffle_ps(low, high, 0xd8);  // 0 2 | 8 10 || 4 6 | 12 14
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
  }
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

template <int kStride>
CPUACCEL_INLINE void eight(const MaxpoolF32Shape& s, const float* src, const Taps& rows,
                           int64_t column, float* dst, int64_t* indices) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i steps = _mm256_mullo_epi32(lane, _mm256_set1_epi32(kStride));
  const auto place_of = [&](int64_t at) {
    return _mm256_add_epi32(steps, _mm256_set1_epi32(static_cast<int>(at)));
  };
  Largest largest{_mm256_set1_ps(-__builtin_inff()), place_of(rows.first * s.W + column)};
  for (int64_t h = rows.first; h < rows.end; h += rows.step) {
    for (int64_t kw = 0; kw < s.KW; ++kw) {
      const int64_t at = h * s.W + column + kw * s.DW;
      largest.add(taps<kStride>(src + at), place_of(at));
    }
  }
  largest.store(dst, indices);
}

template <int kStride>
void plane(const MaxpoolF32Shape& s, const float* src, float* dst, int64_t* indices) {
  // Results [first, end) of a row have all their columns inside.
  const int64_t first = (s.PW + kStride - 1) / kStride;
  const int64_t room = s.W + s.PW - (s.KW - 1) * s.DW - 1;
  const int64_t last = room < 0 ? 0 : room / kStride + 1;
  const int64_t end = last < s.OW ? last : s.OW;
  for (int64_t oh = 0; oh < s.OH; ++oh, dst += s.OW, indices += s.OW) {
    const Taps rows = rows_of(s, oh);
    const bool vectors = end - first >= kLanes;
    for (int64_t ow = 0; ow < s.OW; ++ow) {
      if (vectors && ow == first) {
        for (; ow < end; ow += kLanes) {  // the last may overlap the one before
          const int64_t at = ow + kLanes <= end ? ow : end - kLanes;
          eight<kStride>(s, src, rows, at * kStride - s.PW, dst + at, indices + at);
        }
        ow = end - 1;
        continue;
      }
      window(s, src, rows, columns_of(s, ow), dst[ow], indices[ow]);
    }
  }
}

}  // namespace

void maxpool_f32_x86_avx2(const MaxpoolF32Shape& s, const float* src, float* dst,
                          int64_t* indices) {
  if (s.SW == 1) {
    plane<1>(s, src, dst, indices);
  } else if (s.SW == 2) {
    plane<2>(s, src, dst, indices);
  } else {
    maxpool_f32_ref(s, src, dst, indices);
  }
}

}  // namespace cpuaccel::kernels
