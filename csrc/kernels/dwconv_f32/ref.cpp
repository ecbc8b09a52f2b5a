#include "kernels/dwconv_f32/dwconv_f32.h"

namespace cpuaccel::kernels {
namespace {

struct Image {  // strides in floats
  int64_t channel, row, column;
};

Image image_of(ImageLayout layout, int64_t channels, int64_t rows, int64_t columns) {
  return layout == ImageLayout::channels_first ? Image{rows * columns, columns, 1}
                                               : Image{1, columns * channels, channels};
}

float result(const DwconvF32Call& call, const float* src, int64_t c, int64_t oh, int64_t ow) {
  const auto& s = call.shape;
  const auto image = image_of(call.layout, s.C, s.IH, s.IW);
  const bool last = call.layout == ImageLayout::channels_last;
  float sum = call.bias != nullptr ? call.bias[c] : 0.0f;
  for (int64_t kh = 0; kh < s.KH; ++kh) {
    for (int64_t kw = 0; kw < s.KW; ++kw) {
      const int64_t ih = oh * s.SH - s.PH + kh * s.DH, iw = ow * s.SW - s.PW + kw * s.DW;
      const bool inside = ih >= 0 && ih < s.IH && iw >= 0 && iw < s.IW;
      const int64_t tap = kh * s.KW + kw;
      const float weight = call.weights[last ? tap * s.OC + c : c * s.taps() + tap];
      sum += weight * (inside ? src[ih * image.row + iw * image.column] : 0.0f);
    }
  }
  return sum;
}

}  // namespace

void dwconv_f32_ref(const DwconvF32Call& call, const DwconvF32Strip& /*strip*/, int64_t begin,
                    int64_t end, float* /*padded*/) {
  const auto& s = call.shape;
  const bool first = call.layout == ImageLayout::channels_first;
  const auto image = image_of(call.layout, s.OC, s.OH, s.OW);
  const auto src_image = image_of(call.layout, s.C, s.IH, s.IW);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t n = unit / (first ? s.OC : s.OH), rest = unit % (first ? s.OC : s.OH);
    const int64_t c_begin = first ? rest : 0, c_end = first ? rest + 1 : s.OC;
    const int64_t h_begin = first ? 0 : rest, h_end = first ? s.OH : rest + 1;
    for (int64_t c = c_begin; c < c_end; ++c) {
      const float* src = call.src + n * s.C * s.IH * s.IW + c / (s.OC / s.C) * src_image.channel;
      float* dst = call.dst + n * s.OC * s.pixels() + c * image.channel;
      for (int64_t oh = h_begin; oh < h_end; ++oh) {
        for (int64_t ow = 0; ow < s.OW; ++ow) {
          dst[oh * image.row + ow * image.column] = result(call, src, c, oh, ow);
        }
      }
    }
  }
}

}  // namespace cpuaccel::kernels
