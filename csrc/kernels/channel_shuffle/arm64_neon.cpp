#include <arm_neon.h>

#include "kernels/channel_shuffle/impl.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

CPUACCEL_INLINE void interleave16(const uint8_t* a, const uint8_t* b, uint8_t* dst) {
  const uint8x16_t x = vld1q_u8(a), y = vld1q_u8(b);
  vst1q_u8(dst, vzip1q_u8(x, y));
  vst1q_u8(dst + 16, vzip2q_u8(x, y));
}

}  // namespace

void channel_shuffle_arm64_neon(const ChannelShuffleSource* src, int64_t groups, uint8_t* dst,
                                int64_t rows, int64_t columns) {
  channel_shuffle_two(src, groups, dst, rows, columns, [](auto... of) { interleave16(of...); });
}

}  // namespace cpuaccel::kernels
