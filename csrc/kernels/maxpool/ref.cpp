#include "kernels/maxpool/maxpool.h"

namespace cpuaccel::kernels {

void maxpool_ref(const MaxpoolShape& shape, const uint8_t* image, int64_t oh, uint8_t* dst_row,
                 uint8_t* /*scratch*/) {
  for (int64_t ow = 0; ow < shape.OW; ++ow) {
    for (int64_t c = 0; c < shape.C; ++c) {
      uint8_t largest = 0;
      for (int64_t kh = 0; kh < shape.KH; ++kh) {
        const int64_t h = oh * shape.SH - shape.PH + kh * shape.DH;
        if (h < 0 || h >= shape.H) {
          continue;
        }
        for (int64_t kw = 0; kw < shape.KW; ++kw) {
          const int64_t w = ow * shape.SW - shape.PW + kw * shape.DW;
          if (w < 0 || w >= shape.W) {
            continue;
          }
          const uint8_t value = image[(h * shape.W + w) * shape.C + c];
          largest = value > largest ? value : largest;
        }
      }
      dst_row[ow * shape.C + c] = largest;
    }
  }
}

}  // namespace cpuaccel::kernels
