// Family channel_shuffle: interleaves rows of bytes from several sources, one byte of each in turn.
// This is a channel shuffle of a channels-last u8 image, together with the concatenation before it
// if the concatenation has as many operands as the shuffle has groups.
//
//   dst[row * columns * groups + c * groups + g] = src[g][row * pitch[g] + c]
//
// for row < rows, c < columns, g < groups. dst overlaps no source.
// Bound: 1 byte read and 1 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// The bytes of one group, and the distance between its rows in bytes.
struct ChannelShuffleSource {
  const uint8_t* data;
  int64_t pitch;
};

using ChannelShuffleFunction = void(const ChannelShuffleSource* src, int64_t groups, uint8_t* dst,
                                    int64_t rows, int64_t columns);

#define CPUACCEL_KERNEL(name) ChannelShuffleFunction channel_shuffle_##name;
#include "kernels/channel_shuffle/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ChannelShuffleFunction>> channel_shuffle_kernels();

// Runs the best usable row on the calling thread.
void channel_shuffle_on_this_thread(std::span<const ChannelShuffleSource> src, uint8_t* dst,
                                    int64_t rows, int64_t columns);

// The same on all of torch's threads; then maps each byte through `table` (256 entries) unless it
// is null.
CPUACCEL_API void channel_shuffle_u8(std::span<const ChannelShuffleSource> src, uint8_t* dst,
                                     int64_t rows, int64_t columns, const uint8_t* table);

}  // namespace cpuaccel::kernels
