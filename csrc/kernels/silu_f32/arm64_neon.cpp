#include "kernels/float_vectors/exp_neon.h"
#include "kernels/silu_f32/impl.h"
#include "kernels/silu_f32/silu_f32.h"

namespace cpuaccel::kernels {

void silu_f32_arm64_neon(const float* src, float* dst, int64_t count) {
  silu_loop<ExpFloats4>(src, dst, count);
}

}  // namespace cpuaccel::kernels
