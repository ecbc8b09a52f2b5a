#include "kernels/pixels/pixels.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<PixelsFunction>, name, pixels_##name)
#include "kernels/pixels/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Some microseconds of work.
constexpr int64_t kGrain = 8192;

}  // namespace

std::span<const KernelRow<PixelsFunction>> pixels_kernels() { return kRows; }

void pixels(const PixelsCall& call) {
  const auto& row = first_usable(pixels_kernels());
  parallel_for(0, call.pixels, kGrain, [&](int64_t begin, int64_t end) {
    auto part = call;
    part.src += begin * call.width;
    part.dst += begin * call.C * call.width;
    part.pixels = end - begin;
    row.function(part);
  });
}

}  // namespace cpuaccel::kernels
