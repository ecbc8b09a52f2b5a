#include "kernels/to_channels_last/to_channels_last.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<ToChannelsLastFunction>, name, to_channels_last_##name)
#include "kernels/to_channels_last/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Some microseconds of work.
constexpr int64_t kGrain = 8192;

}  // namespace

std::span<const KernelRow<ToChannelsLastFunction>> to_channels_last_kernels() { return kRows; }

void to_channels_last(const ToChannelsLastCall& call) {
  const auto& row = first_usable(to_channels_last_kernels());
  parallel_for(0, call.pixels, kGrain, [&](int64_t begin, int64_t end) {
    auto part = call;
    part.src += begin * call.width;
    part.dst += begin * call.C * call.width;
    part.pixels = end - begin;
    row.function(part);
  });
}

}  // namespace cpuaccel::kernels
