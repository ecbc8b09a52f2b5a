#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/eltwise_f32/impl.h"
#include "kernels/float_vectors/exp_avx512.h"

namespace cpuaccel::kernels {

void eltwise_f32_x86_avx512(Activation activation, float* values, int64_t count) {
  apply_activation_f32<ExpFloats16>(activation, values, count);
}

}  // namespace cpuaccel::kernels
