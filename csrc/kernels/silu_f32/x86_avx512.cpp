#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/silu_f32/impl.h"
#include "kernels/silu_f32/silu_f32.h"

namespace cpuaccel::kernels {

void silu_f32_x86_avx512(const float* src, float* dst, int64_t count) {
  silu_loop<ExpFloats16>(src, dst, count);
}

}  // namespace cpuaccel::kernels
