#include "kernels/floats/pairs_neon.h"
#include "kernels/function_bf16/function_bf16.h"
#include "kernels/function_bf16/impl.h"

namespace cpuaccel::kernels {

void function_bf16_arm64_neon(FloatFunction function, uint16_t* values, int64_t count) {
  apply_bf16_function<Pairs4>(function, values, count);
}

}  // namespace cpuaccel::kernels
