// As heads_avx2.h (several attention heads in a vector), for the vectors of csr/neon.h: heads of
// two floats. Two doubles already fill a vector.
#pragma once

#include "kernels/csr/neon.h"

namespace cpuaccel::kernels {
namespace {

struct HeadsF32x4 : GraphF32x4 {
  template <int kC>
  CPUACCEL_INLINE static Vector load_heads(const float* src, int64_t count) {
    static_assert(kC == 2);
    const float32x2_t heads = count < 2 ? vld1_lane_f32(src, vdup_n_f32(0.0f), 0) : vld1_f32(src);
    const Vector both = vcombine_f32(heads, heads);
    return vzip1q_f32(both, both);
  }
  template <int kC>
  CPUACCEL_INLINE static void store_heads(float* dst, Vector v, int64_t count) {
    static_assert(kC == 2);
    const float32x2_t sums = vpadd_f32(vget_low_f32(v), vget_high_f32(v));
    if (count < 2) {
      vst1_lane_f32(dst, sums, 0);
    } else {
      vst1_f32(dst, sums);
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
