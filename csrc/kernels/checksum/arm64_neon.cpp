#include <arm_neon.h>

#include "kernels/checksum/checksum.h"

namespace cpuaccel::kernels {

uint64_t checksum_arm64_neon(const uint8_t* src, int64_t blocks) {
  constexpr int64_t kAhead = 16 * kChecksumBlock;  // distance that covers the memory's latency
  uint64_t result = 0;
  for (int64_t block = 0; block < blocks; ++block, src += kChecksumBlock) {
    uint64x2_t sums[2] = {vdupq_n_u64(0), vdupq_n_u64(0)};
    for (int i = 0; i < 8; ++i) {
      if (i % 2 == 0) {
        __builtin_prefetch(src + kAhead + 32 * i);
      }
      const uint32x4_t first = vreinterpretq_u32_u8(vld1q_u8(src + 32 * i));
      const uint32x4_t second = vreinterpretq_u32_u8(vld1q_u8(src + 32 * i + 16));
      const uint32x4_t first_keyed = vaddq_u32(first, vld1q_u32(kChecksumKeys + 8 * i));
      const uint32x4_t second_keyed = vaddq_u32(second, vld1q_u32(kChecksumKeys + 8 * i + 4));
      const uint32x4_t low = vuzp1q_u32(first_keyed, second_keyed);
      const uint32x4_t high = vuzp2q_u32(first_keyed, second_keyed);
      sums[0] = vmlal_u32(sums[0], vget_low_u32(low), vget_low_u32(high));
      sums[1] = vmlal_high_u32(sums[1], low, high);
      sums[0] = vaddq_u64(sums[0], vreinterpretq_u64_u32(first));
      sums[1] = vaddq_u64(sums[1], vreinterpretq_u64_u32(second));
    }
    result = result * kChecksumFactor + vaddvq_u64(vaddq_u64(sums[0], sums[1]));
  }
  return result;
}

}  // namespace cpuaccel::kernels
