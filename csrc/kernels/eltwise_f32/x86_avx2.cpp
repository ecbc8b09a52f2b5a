#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/eltwise_f32/impl.h"
#include "kernels/float_vectors/exp_avx2.h"

namespace cpuaccel::kernels {

void eltwise_f32_x86_avx2(FloatFunction function, float* values, int64_t count) {
  apply_float_function<ExpFloats8>(function, values, count);
}

}  // namespace cpuaccel::kernels
