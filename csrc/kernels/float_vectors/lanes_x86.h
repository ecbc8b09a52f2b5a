// Maximum and sum over the lanes of a vector by combining halves. Included with AVX2's or AVX-512's
// flags.
#pragma once

#include <immintrin.h>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// The upper half of each step, moved to the lower half.
CPUACCEL_INLINE __m128 upper_two(__m128 v) { return _mm_movehl_ps(v, v); }
CPUACCEL_INLINE __m128 second_one(__m128 v) { return _mm_movehdup_ps(v); }
CPUACCEL_INLINE __m128 upper_four(__m256 v) { return _mm256_extractf128_ps(v, 1); }

CPUACCEL_INLINE float largest_lane_of(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), upper_four(v));
  const __m128 two = _mm_max_ps(four, upper_two(four));
  return _mm_cvtss_f32(_mm_max_ss(two, second_one(two)));
}

CPUACCEL_INLINE float sum_of_lanes_of(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), upper_four(v));
  const __m128 two = _mm_add_ps(four, upper_two(four));
  return _mm_cvtss_f32(_mm_add_ss(two, second_one(two)));
}

}  // namespace
}  // namespace cpuaccel::kernels
