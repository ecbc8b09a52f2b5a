#include <algorithm>
#include <cmath>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {

namespace {

uint8_t quantized(float real, const QuantizeBy& by) {
  constexpr float kLowest = -2147483648.0f;
  float value = std::fma(real, by.inverse_scale, by.before);
  value = value < kQuantizeLimit ? value : kQuantizeLimit;  // also replaces a NaN
  value = value < kLowest ? kLowest : value;
  const auto rounded = static_cast<uint32_t>(static_cast<int32_t>(std::nearbyint(value)));
  const auto sum = static_cast<int32_t>(rounded + static_cast<uint32_t>(by.after));
  const int32_t limited = std::clamp(sum, -32768, 32767) + by.offset;
  return static_cast<uint8_t>(std::clamp(limited, 0, 255) ^ by.offset);
}

}  // namespace

void quantize_ref(const float* src, uint8_t* dst, int64_t count, const QuantizeBy& by) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = quantized(src[i], by);
  }
}

void quantize_scaled_ref(const float* src, const float* factors, uint8_t* dst, int64_t count,
                         const QuantizeBy& by) {
  for (int64_t i = 0; i < count; ++i) {
    const float real = src[i] * factors[i];
    dst[i] = quantized(real, by);
  }
}

}  // namespace cpuaccel::kernels
