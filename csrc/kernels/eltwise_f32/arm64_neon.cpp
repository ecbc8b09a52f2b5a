#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/eltwise_f32/impl.h"
#include "kernels/float_vectors/exp_neon.h"

namespace cpuaccel::kernels {

void eltwise_f32_arm64_neon(Activation activation, float* values, int64_t count) {
  apply_activation_f32<ExpFloats4>(activation, values, count);
}

}  // namespace cpuaccel::kernels
