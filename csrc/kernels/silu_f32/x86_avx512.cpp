#include <immintrin.h>

#include "kernels/silu_f32/impl.h"
#include "kernels/silu_f32/silu_f32.h"

namespace cpuaccel::kernels {
namespace {

struct Floats {
  using Type = __m512;
  static constexpr int64_t kWidth = 16;
  CPUACCEL_INLINE static Type load(const float* src) { return _mm512_loadu_ps(src); }
  CPUACCEL_INLINE static void store(float* dst, Type a) { _mm512_storeu_ps(dst, a); }
  CPUACCEL_INLINE static Type all(float value) { return _mm512_set1_ps(value); }
  CPUACCEL_INLINE static Type negative(Type a) { return _mm512_xor_ps(a, all(-0.0f)); }
  CPUACCEL_INLINE static Type min(Type a, Type b) { return _mm512_min_ps(a, b); }
  CPUACCEL_INLINE static Type max(Type a, Type b) { return _mm512_max_ps(a, b); }
  CPUACCEL_INLINE static Type add(Type a, Type b) { return _mm512_add_ps(a, b); }
  CPUACCEL_INLINE static Type multiply(Type a, Type b) { return _mm512_mul_ps(a, b); }
  CPUACCEL_INLINE static Type divide(Type a, Type b) { return _mm512_div_ps(a, b); }
  CPUACCEL_INLINE static Type multiply_add(Type a, Type b, Type c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  CPUACCEL_INLINE static Type round(Type a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  CPUACCEL_INLINE static Type scale(Type a, Type n) { return _mm512_scalef_ps(a, n); }
};

}  // namespace

void silu_f32_x86_avx512(const float* src, float* dst, int64_t count) {
  silu_loop<Floats>(src, dst, count);
}

}  // namespace cpuaccel::kernels
