#include "kernels/floats/exp_sve256.h"
#include "kernels/function_f32/function_f32.h"
#include "kernels/function_f32/impl.h"

namespace cpuaccel::kernels {

void function_f32_arm64_sve256(FloatFunction function, float* values, int64_t count) {
  apply_float_function<SveExpFloats8>(function, values, count);
}

}  // namespace cpuaccel::kernels
