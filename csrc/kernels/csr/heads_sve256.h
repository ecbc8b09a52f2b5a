// As heads_avx2.h (several attention heads in a vector), for the vectors of csr/sve256.h.
#pragma once

#include "kernels/csr/sve256.h"

namespace cpuaccel::kernels {
namespace {

// Lane i of a vector belongs to head i >> kHeadShift.
template <int kC>
inline constexpr unsigned kHeadShift = kC == 4 ? 2 : 1;

struct SveHeadsF32x8 : SveF32x8 {
  template <int kC>
  CPUACCEL_INLINE static Vector load_heads(const float* src, int64_t count) {
    const SveWords head = svlsr_n_u32_x(all(), svindex_u32(0, 1), kHeadShift<kC>);
    return svtbl_f32(svld1_f32(mask(count), src), head);
  }
  template <int kC>
  CPUACCEL_INLINE static void store_heads(float* dst, Vector v, int64_t count) {
    static_assert(kC == 2 || kC == 4);
    const SveWords lanes = svindex_u32(0, 1);
    v = add(v, svtbl_f32(v, sveor_n_u32_x(all(), lanes, 1)));
    if constexpr (kC == 4) {
      v = add(v, svtbl_f32(v, sveor_n_u32_x(all(), lanes, 2)));
    }
    svst1_f32(mask(count), dst, svtbl_f32(v, svlsl_n_u32_x(all(), lanes, kHeadShift<kC>)));
  }
};

struct SveHeadsF64x4 : SveF64x4 {
  template <int kC>
  CPUACCEL_INLINE static Vector load_heads(const double* src, int64_t count) {
    const svuint64_t head = svlsr_n_u64_x(all(), svindex_u64(0, 1), kHeadShift<kC>);
    return svtbl_f64(svld1_f64(mask(count), src), head);
  }
  template <int kC>
  CPUACCEL_INLINE static void store_heads(double* dst, Vector v, int64_t count) {
    static_assert(kC == 2);
    const svuint64_t lanes = svindex_u64(0, 1);
    v = add(v, svtbl_f64(v, sveor_n_u64_x(all(), lanes, 1)));
    svst1_f64(mask(count), dst, svtbl_f64(v, svlsl_n_u64_x(all(), lanes, kHeadShift<kC>)));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
