#include "kernels/byte_vectors/sve256.h"
#include "kernels/maxpool/separable.h"

namespace cpuaccel::kernels {

void maxpool_arm64_sve256(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                          uint8_t* dst_row, uint8_t* scratch) {
  maxpool_separable<SveBytes32>(shape, image, oh, dst_row, scratch);
}

}  // namespace cpuaccel::kernels
