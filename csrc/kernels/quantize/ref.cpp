#include <cmath>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {

namespace {

uint8_t quantized(float real, float inverse_scale, float zero_point, uint8_t offset) {
  constexpr float kLimit = 1.0e9f;  // far beyond every result
  float value = std::fma(real, inverse_scale, zero_point);
  value = value < kLimit ? value : kLimit;  // also replaces a NaN
  value = value < -kLimit ? -kLimit : value;
  const auto rounded = static_cast<int32_t>(std::nearbyint(value)) + offset;
  const auto limited = static_cast<uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
  return static_cast<uint8_t>(limited ^ offset);
}

}  // namespace

void quantize_ref(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                  float zero_point, uint8_t offset) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = quantized(src[i], inverse_scale, zero_point, offset);
  }
}

void quantize_scaled_ref(const float* src, const float* factors, uint8_t* dst, int64_t count,
                         float inverse_scale, float zero_point) {
  for (int64_t i = 0; i < count; ++i) {
    const float real = src[i] * factors[i];
    dst[i] = quantized(real, inverse_scale, zero_point, 0);
  }
}

}  // namespace cpuaccel::kernels
