#include <algorithm>
#include <cstring>

#include "kernels/conv_f32/unfold.h"

namespace cpuaccel::kernels {

void unfold_rows(const void* images, const RowBlock& block) {
  const auto& source = *static_cast<const UnfoldedImages*>(images);
  const auto& s = *source.shape;
  const int64_t channels = source.group_channels();
  const float* image = source.src + block.g * source.image_floats();
  for (int64_t m = 0; m < block.mc; ++m) {
    const int64_t oh = (block.m0 + m) / s.OW, ow = (block.m0 + m) % s.OW;
    float* dst = block.rows + m * block.stride;
    // A tap's channels are successive; the block may begin and end within them.
    for (int64_t k = block.k0; k < block.k0 + block.kc;) {
      const int64_t tap = k / channels, c = k % channels;
      const int64_t count = std::min(channels - c, block.k0 + block.kc - k);
      const int64_t ih = oh * s.SH - s.PH + tap / s.KW * s.DH;
      const int64_t iw = ow * s.SW - s.PW + tap % s.KW * s.DW;
      if (ih < 0 || ih >= s.IH || iw < 0 || iw >= s.IW) {
        std::fill_n(dst, count, 0.0f);
      } else {
        std::memcpy(dst, image + (ih * s.IW + iw) * s.C + c,
                    static_cast<size_t>(count) * sizeof(float));
      }
      k += count;
      dst += count;
    }
  }
}

}  // namespace cpuaccel::kernels
