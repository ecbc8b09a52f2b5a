#include <arm_neon.h>

#include "kernels/inline.h"
#include "kernels/interleave/interleave.h"

namespace cpuaccel::kernels {
namespace {

// 16 bytes of each of two sources.
CPUACCEL_INLINE void interleave16(const uint8_t* a, const uint8_t* b, uint8_t* dst) {
  const uint8x16_t x = vld1q_u8(a), y = vld1q_u8(b);
  vst1q_u8(dst, vzip1q_u8(x, y));
  vst1q_u8(dst + 16, vzip2q_u8(x, y));
}

}  // namespace

void interleave_arm64_neon(const InterleaveSource* src, int64_t groups, uint8_t* dst, int64_t rows,
                           int64_t columns) {
  if (groups != 2 || columns < 16) {
    interleave_ref(src, groups, dst, rows, columns);
    return;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* a = src[0].data + row * src[0].pitch;
    const uint8_t* b = src[1].data + row * src[1].pitch;
    uint8_t* to = dst + row * columns * 2;
    int64_t c = 0;
    for (; c + 16 <= columns; c += 16) {
      interleave16(a + c, b + c, to + 2 * c);
    }
    if (c < columns) {  // the last 16 once more, in part
      c = columns - 16;
      interleave16(a + c, b + c, to + 2 * c);
    }
  }
}

}  // namespace cpuaccel::kernels
