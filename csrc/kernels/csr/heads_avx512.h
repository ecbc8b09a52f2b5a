// As heads_avx2.h (several attention heads in a vector), for the vectors of csr/avx512.h.
#pragma once

#include "kernels/csr/avx512.h"
#include "kernels/csr/heads_avx2.h"

namespace cpuaccel::kernels {
namespace {

struct HeadsF32x16 : GraphF32x16 {
  CPUACCEL_INLINE static __m512i lanes() {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  template <int kC>
  static constexpr unsigned kShift = kC == 8   ? 3
                                     : kC == 4 ? 2
                                               : 1;

  template <int kC>
  CPUACCEL_INLINE static Vector load_heads(const float* src, int64_t count) {
    Vector v;
    if constexpr (kC == 8) {
      v = _mm512_castps128_ps512(FewFloats::load2(src, count));
    } else if constexpr (kC == 4) {
      v = _mm512_castps128_ps512(FewFloats::load4(src, count));
    } else {
      v = _mm512_castps256_ps512(FewFloats::load8(src, count));
    }
    return _mm512_permutexvar_ps(_mm512_srli_epi32(lanes(), kShift<kC>), v);
  }
  template <int kC>
  CPUACCEL_INLINE static void store_heads(float* dst, Vector v, int64_t count) {
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0b10110001));
    if constexpr (kC > 2) {
      v = _mm512_add_ps(v, _mm512_permute_ps(v, 0b01001110));
    }
    if constexpr (kC > 4) {
      v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0b10110001));
    }
    v = _mm512_permutexvar_ps(_mm512_slli_epi32(lanes(), kShift<kC>), v);
    if constexpr (kC == 8) {
      FewFloats::store2(dst, _mm512_castps512_ps128(v), count);
    } else if constexpr (kC == 4) {
      FewFloats::store4(dst, _mm512_castps512_ps128(v), count);
    } else {
      FewFloats::store8(dst, _mm512_castps512_ps256(v), count);
    }
  }
};

struct HeadsF64x8 : GraphF64x8 {
  CPUACCEL_INLINE static __m512i lanes() { return _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7); }
  template <int kC>
  static constexpr unsigned kShift = kC == 4 ? 2 : 1;

  template <int kC>
  CPUACCEL_INLINE static Vector load_heads(const double* src, int64_t count) {
    Vector v;
    if constexpr (kC == 4) {
      v = _mm512_castpd128_pd512(FewDoubles::load2(src, count));
    } else {
      v = _mm512_castpd256_pd512(FewDoubles::load4(src, count));
    }
    return _mm512_permutexvar_pd(_mm512_srli_epi64(lanes(), kShift<kC>), v);
  }
  template <int kC>
  CPUACCEL_INLINE static void store_heads(double* dst, Vector v, int64_t count) {
    v = _mm512_add_pd(v, _mm512_permute_pd(v, 0b01010101));
    if constexpr (kC > 2) {
      v = _mm512_add_pd(v, _mm512_shuffle_f64x2(v, v, 0b10110001));
    }
    v = _mm512_permutexvar_pd(_mm512_slli_epi64(lanes(), kShift<kC>), v);
    if constexpr (kC == 4) {
      FewDoubles::store2(dst, _mm512_castpd512_pd128(v), count);
    } else {
      FewDoubles::store4(dst, _mm512_castpd512_pd256(v), count);
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
