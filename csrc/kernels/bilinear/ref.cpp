#include <cmath>

#include "kernels/bilinear/bilinear.h"

namespace cpuaccel::kernels {

void bilinear_ref(const BilinearCall& call, const uint8_t* image, int64_t oh, uint8_t* dst_row,
                  float* between) {
  const BilinearTap& row = call.rows[oh];
  const int64_t count = call.W * call.C;
  const uint8_t* first = image + row.first * count;
  const uint8_t* second = image + row.second * count;
  for (int64_t i = 0; i < count; ++i) {
    const float product = row.first_weight * static_cast<float>(first[i]);
    between[i] = std::fma(row.second_weight, static_cast<float>(second[i]), product) -
                 static_cast<float>(call.odd);
  }
  for (int64_t ow = 0; ow < call.OW; ++ow) {
    const BilinearTap& column = call.columns[ow];
    for (int64_t c = 0; c < call.C; ++c) {
      const float product = column.first_weight * between[column.first * call.C + c];
      const float value =
          std::fma(column.second_weight, between[column.second * call.C + c], product);
      const auto byte = static_cast<int32_t>(std::nearbyint(value)) + call.odd;
      dst_row[ow * call.C + c] = static_cast<uint8_t>(byte < 0 ? 0 : byte > 255 ? 255 : byte);
    }
  }
}

}  // namespace cpuaccel::kernels
