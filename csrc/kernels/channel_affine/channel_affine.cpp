#include "kernels/channel_affine/channel_affine.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<ChannelAffineFunction>, name, channel_affine_##name)
#include "kernels/channel_affine/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrainBytes = 32768;  // a few microseconds, as long as waking a thread

}  // namespace

std::span<const KernelRow<ChannelAffineFunction>> channel_affine_kernels() { return kRows; }

void channel_affine_u8(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst, int64_t P) {
  const auto function = first_usable(channel_affine_kernels()).function;
  const int64_t grain = std::max<int64_t>(kGrainBytes / std::max<int64_t>(affine.C, 1), 1);
  parallel_for(0, P, grain, [&](int64_t begin, int64_t end) {
    function(affine, src + begin * affine.C, dst + begin * affine.C, end - begin);
  });
}

}  // namespace cpuaccel::kernels
