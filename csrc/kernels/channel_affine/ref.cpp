#include <cmath>

#include "kernels/channel_affine/channel_affine.h"

namespace cpuaccel::kernels {
void channel_affine_ref(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst, int64_t P) {
  for (int64_t p = 0; p < P; ++p) {
    for (int64_t c = 0; c < affine.C; ++c) {
      const auto centered = static_cast<float>(src[c] - affine.src_zero_point);
      const float value = std::fma(affine.factor[c], centered, affine.offset[c]);
      const int32_t step = static_cast<int32_t>(std::nearbyint(value)) + affine.dst_zero_point;
      dst[c] = static_cast<uint8_t>(step < affine.lowest ? affine.lowest : step > 255 ? 255 : step);
    }
    src += affine.C;
    dst += affine.C;
  }
}

}  // namespace cpuaccel::kernels
