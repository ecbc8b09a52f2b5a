#include <cmath>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {

void quantize_ref(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                  float zero_point, uint8_t offset) {
  constexpr float kLimit = 1.0e9f;  // far beyond every result
  for (int64_t i = 0; i < count; ++i) {
    float value = std::fma(src[i], inverse_scale, zero_point);
    value = value < kLimit ? value : kLimit;  // a NaN too
    value = value < -kLimit ? -kLimit : value;
    const auto rounded = static_cast<int32_t>(std::nearbyint(value)) + offset;
    const auto limited = static_cast<uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
    dst[i] = static_cast<uint8_t>(limited ^ offset);
  }
}

}  // namespace cpuaccel::kernels
