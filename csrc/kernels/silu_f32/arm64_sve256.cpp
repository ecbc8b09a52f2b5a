#include "kernels/float_vectors/exp_sve256.h"
#include "kernels/silu_f32/impl.h"
#include "kernels/silu_f32/silu_f32.h"

namespace cpuaccel::kernels {

void silu_f32_arm64_sve256(const float* src, float* dst, int64_t count) {
  silu_loop<SveExpFloats8>(src, dst, count);
}

}  // namespace cpuaccel::kernels
