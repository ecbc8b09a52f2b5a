#include <cmath>

#include "kernels/binary/binary.h"

namespace cpuaccel::kernels {
namespace {

uint8_t requantized(float value, const BinaryQuantizers& q) {
  const auto result = static_cast<int32_t>(std::nearbyint(value)) + q.zero_point;
  const int32_t low = q.relu ? q.zero_point : 0;
  return static_cast<uint8_t>(result < low ? low : result > 255 ? 255 : result);
}

}  // namespace

void add_ref(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
             const BinaryQuantizers& q) {
  const float offset_a = q.scale_a * static_cast<float>(-q.zero_point_a);
  const float offset_b = q.scale_b * static_cast<float>(-q.zero_point_b);
  const float inverse_scale = 1.0f / q.scale;
  for (int64_t i = 0; i < count; ++i) {
    const float real_a = std::fma(q.scale_a, static_cast<float>(a[i]), offset_a);
    const float real_b = std::fma(q.scale_b, static_cast<float>(b[i]), offset_b);
    const float sum = real_a + real_b;
    dst[i] = requantized(sum * inverse_scale, q);
  }
}

void mul_ref(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
             const BinaryQuantizers& q) {
  const float multiplier = q.scale_a * q.scale_b * (1.0f / q.scale);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t product = (a[i] - q.zero_point_a) * (b[i] - q.zero_point_b);
    dst[i] = requantized(static_cast<float>(product) * multiplier, q);
  }
}

}  // namespace cpuaccel::kernels
