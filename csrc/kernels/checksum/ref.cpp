#include <cstring>

#include "kernels/checksum/checksum.h"

namespace cpuaccel::kernels {

uint64_t checksum_ref(const uint8_t* src, int64_t blocks) {
  uint64_t result = 0;
  for (int64_t block = 0; block < blocks; ++block, src += kChecksumBlock) {
    uint64_t sum = 0;
    for (int i = 0; i < 64; i += 2) {
      uint32_t low = 0, high = 0;
      std::memcpy(&low, src + 4 * i, 4);
      std::memcpy(&high, src + 4 * i + 4, 4);
      sum += uint64_t{low + kChecksumKeys[i]} * uint64_t{high + kChecksumKeys[i + 1]} + low +
             (uint64_t{high} << 32);
    }
    result = result * kChecksumFactor + sum;
  }
  return result;
}

}  // namespace cpuaccel::kernels
