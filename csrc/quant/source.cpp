#include "quant/source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/minmax/minmax.h"

namespace cpuaccel::quant {
namespace {

// torch's ChooseQuantizationParams (ATen/native/quantized/cpu/QuantUtils.h) for uint8, with the
// same roundings: float and double as there.
SourceQuantizer quantizer_of_range(float min, float max, bool reduce_range) {
  constexpr int32_t kLowest = 0;
  const int32_t highest = reduce_range ? 127 : 255;
  constexpr float kSmallScale = 6.1e-5f;  // smaller ones would be subnormal in fp16
  min = std::min(min, 0.0f);
  max = std::max(max, 0.0f);
  double scale = (static_cast<double>(max) - static_cast<double>(min)) / (highest - kLowest);
  if (static_cast<float>(scale) == 0.0f || std::isinf(1.0f / static_cast<float>(scale))) {
    scale = 0.1;
  }
  if (scale < static_cast<double>(kSmallScale)) {
    const auto before = static_cast<float>(scale);
    scale = static_cast<double>(kSmallScale);
    if (min == 0.0f) {
      max = kSmallScale * static_cast<float>(highest - kLowest);
    } else if (max == 0.0f) {
      min = -kSmallScale * static_cast<float>(highest - kLowest);
    } else {
      const float amplifier = kSmallScale / before;
      min *= amplifier;
      max *= amplifier;
    }
  }
  // Either end of the range gives the zero point. The one whose terms are smaller is nearer.
  const double below = static_cast<double>(min) / scale, above = static_cast<double>(max) / scale;
  const double from_min = kLowest - below, from_max = highest - above;
  const double error_of_min = kLowest - std::abs(below), error_of_max = highest - std::abs(above);
  const double exact = error_of_min < error_of_max ? from_min : from_max;
  const int32_t zero_point = exact < kLowest   ? kLowest
                             : exact > highest ? highest
                                               : static_cast<int32_t>(std::nearbyint(exact));
  return {scale, zero_point};
}

}  // namespace

SourceQuantizer dynamic_quantizer(const float* src, int64_t count, bool reduce_range) {
  kernels::MinMax range{0.0f, 0.0f};
  if (count > 0) {
    range = kernels::minmax(src, count);
  }
  if (!(range.min <= range.max)) {
    throw std::logic_error("In ChooseQuantizationParams, min should be less than or equal to max");
  }
  return quantizer_of_range(range.min, range.max, reduce_range);
}

int64_t slices_below_int32(const char* op, int64_t src_per_slice, int64_t dst_per_slice) {
  const int64_t most = std::max<int64_t>({src_per_slice, dst_per_slice, 1});
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  if (most > kLimit) {
    throw std::logic_error(op +
                           (": expected fewer than 2^31 elements for one image or row, but got " +
                            std::to_string(most)));
  }
  return kLimit / most;
}

}  // namespace cpuaccel::quant
