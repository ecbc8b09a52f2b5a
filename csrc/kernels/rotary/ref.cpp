#include "kernels/rotary/rotary.h"

namespace cpuaccel::kernels {

void rotary_ref(const RotaryRow& row) {
  const int64_t half = row.half;
  for (int64_t i = 0; i < half; ++i) {
    const auto a = static_cast<double>(row.src[i]), b = static_cast<double>(row.src[half + i]);
    const auto at = [](const float* table, int64_t j) { return static_cast<double>(table[j]); };
    row.dst[i] = static_cast<float>(a * at(row.cos, i) - b * at(row.sin, i));
    row.dst[half + i] = static_cast<float>(b * at(row.cos, half + i) + a * at(row.sin, half + i));
  }
}

}  // namespace cpuaccel::kernels
