// The AVX2 vector classes of csr/avx2.h for attention heads of kC columns, 2, 4 or 8, side by side
// in a vector.
//
//   load_heads<kC>(numbers, count)   number i of `count`, in all lanes of head i
//   store_heads<kC>(numbers, v, count)   number i is the sum of the lanes of head i
//
// Both use vectors just wide enough for the number of heads. Wider ones with masks would reach into
// the next cache line and wait for it.
#pragma once

#include "kernels/csr/avx2.h"

namespace cpuaccel::kernels {
namespace {

// Loads and stores of two, four or eight floats, or of fewer if `count` is less.
struct FewFloats {
  CPUACCEL_INLINE static __m128 load2(const float* src, int64_t count) {
    return count < 2 ? _mm_load_ss(src)
                     : _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(src)));
  }
  CPUACCEL_INLINE static __m128 load4(const float* src, int64_t count) {
    return count < 4 ? GraphF32x4::load(src, GraphF32x4::mask(count)) : _mm_loadu_ps(src);
  }
  CPUACCEL_INLINE static __m256 load8(const float* src, int64_t count) {
    return count < 8 ? GraphF32x8::load(src, GraphF32x8::mask(count)) : _mm256_loadu_ps(src);
  }
  CPUACCEL_INLINE static void store2(float* dst, __m128 v, int64_t count) {
    if (count < 2) {
      _mm_store_ss(dst, v);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), _mm_castps_si128(v));
    }
  }
  CPUACCEL_INLINE static void store4(float* dst, __m128 v, int64_t count) {
    if (count < 4) {
      GraphF32x4::store(dst, v, GraphF32x4::mask(count));
    } else {
      _mm_storeu_ps(dst, v);
    }
  }
  CPUACCEL_INLINE static void store8(float* dst, __m256 v, int64_t count) {
    if (count < 8) {
      GraphF32x8::store(dst, v, GraphF32x8::mask(count));
    } else {
      _mm256_storeu_ps(dst, v);
    }
  }
};

// Loads and stores of two or four doubles, or of fewer if `count` is less.
struct FewDoubles {
  CPUACCEL_INLINE static __m128d load2(const double* src, int64_t count) {
    return count < 2 ? _mm_load_sd(src) : _mm_loadu_pd(src);
  }
  CPUACCEL_INLINE static __m256d load4(const double* src, int64_t count) {
    return count < 4 ? GraphF64x4::load(src, GraphF64x4::mask(count)) : _mm256_loadu_pd(src);
  }
  CPUACCEL_INLINE static void store2(double* dst, __m128d v, int64_t count) {
    if (count < 2) {
      _mm_store_sd(dst, v);
    } else {
      _mm_storeu_pd(dst, v);
    }
  }
  CPUACCEL_INLINE static void store4(double* dst, __m256d v, int64_t count) {
    if (count < 4) {
      GraphF64x4::store(dst, v, GraphF64x4::mask(count));
    } else {
      _mm256_storeu_pd(dst, v);
    }
  }
};

struct HeadsF32x8 : GraphF32x8 {
  template <int kC>
  CPUACCEL_INLINE static Vector load_heads(const float* src, int64_t count) {
    __m128 v;
    if constexpr (kC == 4) {
      v = FewFloats::load2(src, count);
    } else {
      v = FewFloats::load4(src, count);
    }
    return _mm256_permutevar8x32_ps(
        _mm256_castps128_ps256(v),
        _mm256_setr_epi32(0, 1 / kC, 2 / kC, 3 / kC, 4 / kC, 5 / kC, 6 / kC, 7 / kC));
  }
  template <int kC>
  CPUACCEL_INLINE static void store_heads(float* dst, Vector v, int64_t count) {
    v = _mm256_add_ps(v, _mm256_permute_ps(v, 0b10110001));
    if constexpr (kC == 4) {
      v = _mm256_add_ps(v, _mm256_permute_ps(v, 0b01001110));
    }
    constexpr int kLast = static_cast<int>(kLanes) - 1;
    v = _mm256_permutevar8x32_ps(
        v, _mm256_setr_epi32(0, kC, 2 * kC & kLast, 3 * kC & kLast, 0, 0, 0, 0));
    if constexpr (kC == 4) {
      FewFloats::store2(dst, _mm256_castps256_ps128(v), count);
    } else {
      FewFloats::store4(dst, _mm256_castps256_ps128(v), count);
    }
  }
};

struct HeadsF64x4 : GraphF64x4 {
  template <int kC>
  CPUACCEL_INLINE static Vector load_heads(const double* src, int64_t count) {
    return _mm256_permute4x64_pd(_mm256_castpd128_pd256(FewDoubles::load2(src, count)), 0b01010000);
  }
  template <int kC>
  CPUACCEL_INLINE static void store_heads(double* dst, Vector v, int64_t count) {
    v = _mm256_permute4x64_pd(_mm256_hadd_pd(v, v), 0b00001000);
    FewDoubles::store2(dst, _mm256_castpd256_pd128(v), count);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
