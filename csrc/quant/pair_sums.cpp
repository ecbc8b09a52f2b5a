#include "quant/pair_sums.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/any_byte_above/any_byte_above.h"
#include "kernels/minmax/minmax.h"

namespace cpuaccel::quant {
namespace {

// The two largest (at least 0) and the two smallest (at most 0) of the added weights.
struct Extremes {
  int largest = 0, second_largest = 0, smallest = 0, second_smallest = 0;

  void add(int value) {
    if (value > second_largest) {
      second_largest = std::min(value, largest);
      largest = std::max(value, largest);
    } else if (value < second_smallest) {
      second_smallest = std::max(value, smallest);
      smallest = std::min(value, smallest);
    }
  }
  // src * (sum of two weights) must be in [-32768, 32767].
  int largest_source() const {
    const int up = largest + second_largest, down = -(smallest + second_smallest);
    return std::min({255, 32767 / std::max(up, 1), 32768 / std::max(down, 1)});
  }
};

}  // namespace

uint8_t largest_exact_source(const LayerWeight& layer, const Int8Weights& values) {
  // A transposed convolution's outputs are not rows of its weights: all of them count as one row.
  const int64_t rows = layer.shape.kind == LayerKind::conv_transpose ? 1 : layer.shape.OC;
  const int64_t count = values.count / std::max<int64_t>(rows, 1);
  int result = 255;
  for (int64_t row = 0; row < rows; ++row) {
    Extremes extremes;
    for (int64_t i = row * count; i < (row + 1) * count; ++i) {
      extremes.add(values.data[i]);
    }
    result = std::min(result, extremes.largest_source());
  }
  return static_cast<uint8_t>(result);
}

bool sources_above(const LayerShape& shape, const QuantCall& call, uint8_t limit) {
  if (call.src_zero_point > limit) {
    return true;
  }
  const int64_t count = call.N * shape.IC * volume(call.src_dims);
  if (count == 0) {
    return false;
  }
  if (call.src_f32 == nullptr) {
    return kernels::any_byte_above(call.src, count, limit);
  }
  // Below a half by more than the libraries' roundings differ.
  constexpr float kRoundsDown = 0.4f;
  const float largest = kernels::minmax(call.src_f32, count).max;
  const float byte =
      std::fma(largest, 1.0f / call.src_scale, static_cast<float>(call.src_zero_point));
  return !(byte <= static_cast<float>(limit) + kRoundsDown);
}

}  // namespace cpuaccel::quant
