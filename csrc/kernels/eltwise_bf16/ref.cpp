#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {

void eltwise_bf16_ref(FloatFunction function, uint16_t* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float value = bf16_to_float(values[i]);
    eltwise_f32_ref(function, &value, 1);
    values[i] = float_to_bf16(value);
  }
}

}  // namespace cpuaccel::kernels
