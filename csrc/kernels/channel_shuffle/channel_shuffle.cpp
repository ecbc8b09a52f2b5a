#include "kernels/channel_shuffle/channel_shuffle.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/lookup_table/lookup_table.h"

#include <array>

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<ChannelShuffleFunction>, name, channel_shuffle_##name)
#include "kernels/channel_shuffle/kernels.inc"
#undef CPUACCEL_KERNEL
};

}  // namespace

std::span<const KernelRow<ChannelShuffleFunction>> channel_shuffle_kernels() { return kRows; }

void channel_shuffle_on_this_thread(std::span<const ChannelShuffleSource> src, uint8_t* dst,
                                    int64_t rows, int64_t columns) {
  const auto function = first_usable(channel_shuffle_kernels()).function;
  function(src.data(), static_cast<int64_t>(src.size()), dst, rows, columns);
}

void channel_shuffle_u8(std::span<const ChannelShuffleSource> src, uint8_t* dst, int64_t rows,
                        int64_t columns, const uint8_t* table) {
  constexpr int64_t kGrain = 65536;
  // Bytes of a block of rows. The table is applied to a block while it is in the L1 cache.
  constexpr int64_t kBlock = 8192;
  const int64_t width = columns * static_cast<int64_t>(src.size());
  const int64_t block = std::max<int64_t>(1, kBlock / width);
  parallel_for(0, rows, std::max<int64_t>(1, kGrain / width), [&](int64_t begin, int64_t end) {
    std::vector<ChannelShuffleSource> now(src.begin(), src.end());
    for (int64_t row = begin; row < end; row += block) {
      const int64_t count = std::min(block, end - row);
      for (size_t g = 0; g < src.size(); ++g) {
        now[g].data = src[g].data + row * src[g].pitch;
      }
      uint8_t* to = dst + row * width;
      channel_shuffle_on_this_thread(now, to, count, columns);
      if (table != nullptr) {
        lookup_table_u8(to, to, count * width, table);
      }
    }
  });
}

}  // namespace cpuaccel::kernels
