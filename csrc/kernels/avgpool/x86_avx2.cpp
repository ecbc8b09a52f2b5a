#include "kernels/avgpool/window.h"
#include "kernels/byte_vectors/avx2.h"

namespace cpuaccel::kernels {

void avgpool_x86_avx2(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                      int64_t channels) {
  average_channels<Bytes32, Bytes16, Bytes8>(window, src, dst, channels);
}

}  // namespace cpuaccel::kernels
