#include <cmath>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {

void quantize_ref(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                  int32_t zero_point, uint8_t flipped_bits) {
  // Far beyond every result, and every zero point can be added to it.
  constexpr float kLimit = 1.0e9f;
  for (int64_t i = 0; i < count; ++i) {
    float value = src[i] * inverse_scale;
    value = value < kLimit ? value : kLimit;  // a NaN too
    value = value < -kLimit ? -kLimit : value;
    const auto rounded = static_cast<int32_t>(std::nearbyint(value)) + zero_point;
    const auto limited = static_cast<uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
    dst[i] = static_cast<uint8_t>(limited ^ flipped_bits);
  }
}

}  // namespace cpuaccel::kernels
