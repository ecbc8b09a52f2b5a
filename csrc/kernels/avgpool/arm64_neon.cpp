#include "kernels/avgpool/window.h"
#include "kernels/byte_vectors/neon.h"

namespace cpuaccel::kernels {

void avgpool_arm64_neon(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                        int64_t channels) {
  average_channels<Bytes16, Bytes8>(window, src, dst, channels);
}

}  // namespace cpuaccel::kernels
