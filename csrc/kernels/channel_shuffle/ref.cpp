#include "kernels/channel_shuffle/channel_shuffle.h"

namespace cpuaccel::kernels {

void channel_shuffle_ref(const ChannelShuffleSource* src, int64_t groups, uint8_t* dst,
                         int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    uint8_t* to = dst + row * columns * groups;
    for (int64_t g = 0; g < groups; ++g) {
      const uint8_t* from = src[g].data + row * src[g].pitch;
      for (int64_t c = 0; c < columns; ++c) {
        to[c * groups + g] = from[c];
      }
    }
  }
}

}  // namespace cpuaccel::kernels
