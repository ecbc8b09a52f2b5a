#include <arm_neon.h>

#include "kernels/peaks/loops.h"

namespace cpuaccel::kernels {

int64_t peak_int8_arm64_i8mm(int64_t iterations) {
  const int8x16_t a = opaque(vdupq_n_s8(1)), b = opaque(vdupq_n_s8(1));
  return repeat<20, int32x4_t>(iterations, 32,
                               [=](int32x4_t sum) { return vmmlaq_s32(sum, a, b); });
}

int64_t peak_bf16_arm64_i8mm(int64_t iterations) {
  const auto zero = vreinterpretq_bf16_u16(vdupq_n_u16(0));
  const bfloat16x8_t a = opaque(zero), b = opaque(zero);
  return repeat<20, float32x4_t>(iterations, 16,
                                 [=](float32x4_t sum) { return vbfmmlaq_f32(sum, a, b); });
}

}  // namespace cpuaccel::kernels
