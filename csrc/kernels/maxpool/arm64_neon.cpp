#include "kernels/byte_vectors/neon.h"
#include "kernels/maxpool/separable.h"

namespace cpuaccel::kernels {

void maxpool_arm64_neon(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                        uint8_t* dst_row, uint8_t* scratch) {
  maxpool_separable<Bytes16, Bytes8>(shape, image, oh, dst_row, scratch);
}

}  // namespace cpuaccel::kernels
