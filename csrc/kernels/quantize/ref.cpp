#include <cmath>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {

void quantize_ref(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                  int32_t zero_point) {
  // The largest floats below 2^31 in magnitude that every zero point can be added to.
  constexpr float kLimit = 1.0e9f;
  for (int64_t i = 0; i < count; ++i) {
    float value = src[i] * inverse_scale;
    if (value != value) {
      value = 0.0f;
    }
    value = value < -kLimit ? -kLimit : value > kLimit ? kLimit : value;
    const auto rounded = static_cast<int32_t>(std::nearbyint(value)) + zero_point;
    dst[i] = static_cast<uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
  }
}

}  // namespace cpuaccel::kernels
