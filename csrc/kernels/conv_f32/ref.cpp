#include <algorithm>

#include "kernels/conv_f32/unfold.h"

namespace cpuaccel::kernels {

void unfold_ref(const UnfoldTap& tap) {
  for (int64_t c = 0; c < tap.channels; ++c) {
    const float* plane = tap.plane + c * tap.area;
    float* dst = tap.dst + c * tap.step;
    std::fill_n(dst, tap.nr, 0.0f);
    for (const auto& piece : tap.pieces) {
      for (int64_t i = 0; i < piece.count; ++i) {
        dst[piece.column + i] = plane[piece.offset + i * tap.stride];
      }
    }
  }
}

}  // namespace cpuaccel::kernels
