#include "kernels/three_bytes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace cpuaccel::kernels {
namespace {

// The largest number of three bytes is 127 * (65536 + 256 + 1). Rounding may add 1 to a step.
constexpr float kLargest = 8355709.0f;
constexpr float kSmallest = kLargest * std::numeric_limits<float>::min();

// The largest |value|; a NaN or an infinity if there is one. Bits of positive floats are in the
// order of the floats, and vectors of integers have a maximum without conditions.
float largest(const float* values, int64_t count) {
  int32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  }
  return std::bit_cast<float>(most);
}

// bytes: K of high, K of middle and K of low.
void split(const float* src, float per_step, int64_t K, uint8_t* bytes) {
  // Adding 128 to each byte makes all of them positive; in two's complement, changing the highest
  // bit takes it away again.
  constexpr int32_t kHalves = 0x808080;
  for (int64_t k = 0; k < K; ++k) {
    const float steps = src[k] * per_step;
    const auto whole = static_cast<int32_t>(steps + std::copysign(0.5f, steps));
    const int32_t three = (whole + kHalves) ^ kHalves;
    bytes[k] = static_cast<uint8_t>(three >> 16);
    bytes[K + k] = static_cast<uint8_t>(three >> 8);
    bytes[2 * K + k] = static_cast<uint8_t>(three);
  }
}

}  // namespace

std::optional<float> three_bytes(const float* src, int64_t K, uint8_t* bytes) {
  const float most = largest(src, K);
  if (!std::isfinite(most) || (most > 0.0f && most < kSmallest)) {
    return {};
  }
  split(src, most > 0.0f ? kLargest / most : 0.0f, K, bytes);
  return most / kLargest;
}

}  // namespace cpuaccel::kernels
