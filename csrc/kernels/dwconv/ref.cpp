#include "kernels/dwconv/dwconv.h"

#include "kernels/conv_ref.h"

namespace cpuaccel::kernels {

void dwconv_ref(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* /*scratch*/) {
  const DwconvShape& s = call.weights->shape;
  for (int64_t h = oh; h < oh + rows; ++h) {
    for (int64_t w = 0; w < call.OW; ++w) {
      for (int64_t c = 0; c < s.C; ++c) {
        const int8_t* block = call.weights->block(c);
        int32_t acc = 0;
        for (int64_t kh = 0; kh < s.KH; ++kh) {
          const int64_t ih = h * s.SH - s.PH + kh * s.DH;
          for (int64_t kw = 0; kw < s.KW; ++kw) {
            const int64_t iw = w * s.SW - s.PW + kw * s.DW;
            if (ih < 0 || ih >= call.IH || iw < 0 || iw >= call.IW) {
              continue;  // padding is the zero point
            }
            const int32_t src = call.src[((n * call.IH + ih) * call.IW + iw) * s.C + c];
            const int64_t tap = (((kh / 4) * s.KW + kw) * kDwconvBlock + c % kDwconvBlock) * 4;
            acc += (src - call.src_zero_point) * block[tap + kh % 4];
          }
        }
        store_ref(call.dst, ((n * call.OH + h) * call.OW + w) * s.C + c, c, acc);
      }
    }
  }
}

}  // namespace cpuaccel::kernels
