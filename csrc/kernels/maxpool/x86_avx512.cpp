#include "kernels/byte_vectors/avx512.h"
#include "kernels/maxpool/separable.h"

namespace cpuaccel::kernels {

void maxpool_x86_avx512(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                        uint8_t* dst_row, uint8_t* scratch) {
  maxpool_separable<Bytes64>(shape, image, oh, dst_row, scratch);
}

}  // namespace cpuaccel::kernels
