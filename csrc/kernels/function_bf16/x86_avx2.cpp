#include "kernels/floats/pairs_avx2.h"
#include "kernels/function_bf16/function_bf16.h"
#include "kernels/function_bf16/impl.h"

namespace cpuaccel::kernels {

void function_bf16_x86_avx2(FloatFunction function, uint16_t* values, int64_t count) {
  apply_bf16_function<Pairs8>(function, values, count);
}

}  // namespace cpuaccel::kernels
