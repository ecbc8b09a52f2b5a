#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {

void eltwise_bf16_ref(Activation activation, uint16_t* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float value = bf16_to_float(values[i]);
    eltwise_f32_ref(activation, &value, 1);
    values[i] = float_to_bf16(value);
  }
}

}  // namespace cpuaccel::kernels
