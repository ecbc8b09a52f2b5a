// Loops of the to_channels_last kernels with channels and width as template constants; the
// remaining pixels are copied one by one. Included by ISA files.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/to_channels_last/to_channels_last.h"

namespace cpuaccel::kernels {
namespace {

inline void to_channels_last_one_by_one(const ToChannelsLastCall& call, int64_t begin) {
  const auto width = static_cast<size_t>(call.width);
  for (int64_t i = begin; i < call.pixels; ++i) {
    for (int64_t c = 0; c < call.C; ++c) {
      std::memcpy(call.dst + (i * call.C + c) * call.width,
                  call.src + (c * call.plane + i) * call.width, width);
    }
  }
}

// Loop<kChannels, kWidth>::run(call) returns the number of pixels that it copied.
template <template <int, int> typename Loop, int kWidth>
int64_t to_channels_last_of_width(const ToChannelsLastCall& call) {
  switch (call.C) {
    case 2:
      return Loop<2, kWidth>::run(call);
    case 3:
      return Loop<3, kWidth>::run(call);
    case 4:
      return Loop<4, kWidth>::run(call);
    default:
      return 0;
  }
}

template <template <int, int> typename Loop>
void to_channels_last_by(const ToChannelsLastCall& call) {
  const int64_t done = call.width == 2   ? to_channels_last_of_width<Loop, 2>(call)
                       : call.width == 4 ? to_channels_last_of_width<Loop, 4>(call)
                                         : 0;
  to_channels_last_one_by_one(call, done);
}

}  // namespace
}  // namespace cpuaccel::kernels
