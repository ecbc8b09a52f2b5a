#include <cmath>

#include "kernels/avgpool/avgpool.h"

namespace cpuaccel::kernels {

void avgpool_ref(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst, int64_t channels) {
  const auto divisor = static_cast<double>(window.divisor);
  for (int64_t c = 0; c < channels; ++c) {
    int32_t sum = window.shift;
    for (int64_t h = 0; h < window.rows; ++h) {
      for (int64_t w = 0; w < window.columns; ++w) {
        sum += src[h * window.row_stride + w * window.column_stride + c];
      }
    }
    const auto rounded = static_cast<int32_t>(std::nearbyint(sum / divisor));
    const int32_t value = rounded + window.offset;
    dst[c] = static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

}  // namespace cpuaccel::kernels
