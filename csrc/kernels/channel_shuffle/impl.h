// Loop of the interleave kernels for two sources, 16 bytes of each at a time. Included by ISA
// files.
#pragma once

#include <cstdint>

#include "kernels/channel_shuffle/channel_shuffle.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// interleave16(a, b, dst) interleaves 16 bytes of two sources. The reference kernel handles any
// other number of groups and rows of fewer than 16 columns.
template <typename Interleave16>
CPUACCEL_INLINE void channel_shuffle_two(const ChannelShuffleSource* src, int64_t groups,
                                         uint8_t* dst, int64_t rows, int64_t columns,
                                         Interleave16 interleave16) {
  if (groups != 2 || columns < 16) {
    channel_shuffle_ref(src, groups, dst, rows, columns);
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
    if (c < columns) {  // the last 16 columns overlap those already done
      c = columns - 16;
      interleave16(a + c, b + c, to + 2 * c);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
