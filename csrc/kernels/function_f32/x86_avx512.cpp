#include "kernels/floats/exp_avx512.h"
#include "kernels/function_f32/function_f32.h"
#include "kernels/function_f32/impl.h"

namespace cpuaccel::kernels {

void function_f32_x86_avx512(FloatFunction function, float* values, int64_t count) {
  apply_float_function<ExpFloats16>(function, values, count);
}

}  // namespace cpuaccel::kernels
