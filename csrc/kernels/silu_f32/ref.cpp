#include <cmath>

#include "kernels/silu_f32/silu_f32.h"

namespace cpuaccel::kernels {

void silu_f32_ref(const float* src, float* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = src[i] / (1.0f + std::exp(-src[i]));
  }
}

}  // namespace cpuaccel::kernels
