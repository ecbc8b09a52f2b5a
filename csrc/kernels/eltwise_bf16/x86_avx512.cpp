#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/eltwise_bf16/impl.h"
#include "kernels/float_vectors/pairs_avx512.h"

namespace cpuaccel::kernels {
namespace {

struct RoughPairs16 : Pairs16 {
  // The best polynomial of degree 3, as in impl.h, but for r in [0, 1].
  CPUACCEL_INLINE static Vector rough_power(Vector t) {
    return power_by(t, 0.0780245227f, {0.226067155f, 0.695833541f, 0.999925219f});
  }
  // Within 2^-14. On cores other than Zen 5 a division takes several times as long.
  CPUACCEL_INLINE static Vector rough_divide(Vector a, Vector b) {
    return multiply(a, _mm512_rcp14_ps(b));
  }
};

}  // namespace

void eltwise_bf16_x86_avx512(Activation activation, uint16_t* values, int64_t count) {
  apply_activation_bf16<RoughPairs16>(activation, values, count);
}

}  // namespace cpuaccel::kernels
