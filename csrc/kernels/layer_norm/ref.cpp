#include <cmath>

#include "kernels/layer_norm/layer_norm.h"

namespace cpuaccel::kernels {

void layer_norm_ref(const LayerNormRow& row) {
  const auto count = static_cast<double>(row.columns);
  double mean = 0.0, variance = 0.0;
  for (int64_t i = 0; i < row.columns; ++i) {
    row.x[i] = row.src[i] + (row.addend != nullptr ? row.addend[i] : 0.0f);
    mean += static_cast<double>(row.x[i]) / count;
  }
  for (int64_t i = 0; i < row.columns; ++i) {
    const double distance = static_cast<double>(row.x[i]) - mean;
    variance += distance * distance / count;
  }
  const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(row.epsilon));
  for (int64_t i = 0; i < row.columns; ++i) {
    const double value = (static_cast<double>(row.x[i]) - mean) * inverse;
    row.dst[i] =
        static_cast<float>(row.gamma != nullptr ? value * static_cast<double>(row.gamma[i]) +
                                                      static_cast<double>(row.beta[i])
                                                : value);
  }
}

}  // namespace cpuaccel::kernels
