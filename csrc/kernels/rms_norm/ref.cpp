#include <cmath>

#include "kernels/rms_norm/rms_norm.h"

namespace cpuaccel::kernels {

void rms_norm_ref(const RmsNormRow& row) {
  const auto count = static_cast<double>(row.columns);
  double squares = 0.0;
  for (int64_t i = 0; i < row.columns; ++i) {
    row.x[i] = row.src[i] + (row.addend != nullptr ? row.addend[i] : 0.0f);
    squares += static_cast<double>(row.x[i]) * static_cast<double>(row.x[i]);
  }
  const double inverse = 1.0 / std::sqrt(squares / count + static_cast<double>(row.epsilon));
  for (int64_t i = 0; i < row.columns; ++i) {
    const float weight = row.weights != nullptr ? row.weights[i] + row.weight_offset : 1.0f;
    row.dst[i] =
        static_cast<float>(static_cast<double>(row.x[i]) * inverse * static_cast<double>(weight));
  }
}

}  // namespace cpuaccel::kernels
