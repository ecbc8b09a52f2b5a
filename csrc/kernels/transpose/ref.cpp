#include "kernels/transpose/transpose.h"

namespace cpuaccel::kernels {

void transpose_ref(const Transpose& shape, const uint8_t* src, uint8_t* dst) {
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t k = 0; k < shape.K; ++k) {
      for (int64_t m = 0; m < shape.M; ++m) {
        dst[b * shape.dst_batch + k * shape.dst_stride + m] =
            src[b * shape.src_batch + m * shape.src_stride + k];
      }
    }
  }
}

}  // namespace cpuaccel::kernels
