#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/minmax/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Minmax16 : ExpFloats16 {
  CPUACCEL_INLINE static float smallest(Vector v) { return _mm512_reduce_min_ps(v); }
  CPUACCEL_INLINE static float largest(Vector v) { return _mm512_reduce_max_ps(v); }

  using ExpFloats16::max;
  using ExpFloats16::min;
  CPUACCEL_INLINE static Vector min(Vector a, Vector b, Mask m) {
    return _mm512_mask_min_ps(b, m, a, b);
  }
  CPUACCEL_INLINE static Vector max(Vector a, Vector b, Mask m) {
    return _mm512_mask_max_ps(b, m, a, b);
  }
};

}  // namespace

MinMax minmax_x86_avx512(const float* src, int64_t count) {
  return minmax_by<Minmax16, 2>(src, count);
}

}  // namespace cpuaccel::kernels
