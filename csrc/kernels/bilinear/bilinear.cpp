#include "kernels/bilinear/bilinear.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "base/scratch.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<BilinearFunction>, name, bilinear_##name)
#include "kernels/bilinear/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 16384;  // elements: a few microseconds, as long as waking a thread

}  // namespace

std::span<const KernelRow<BilinearFunction>> bilinear_kernels() { return kRows; }

void bilinear_u8(const BilinearCall& call, const uint8_t* src, uint8_t* dst) {
  const auto function = first_usable(bilinear_kernels()).function;
  const int64_t src_row = call.W * call.C;
  const int64_t dst_row = call.OW * call.C;
  const auto run = [&](int64_t begin, int64_t end) {
    auto* between = static_cast<float*>(
        scratch(ScratchSlot::accumulator, static_cast<size_t>(src_row) * sizeof(float)));
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* image = src + row / call.OH * call.H * src_row;
      function(call, image, row % call.OH, dst + row * dst_row, between);
    }
  };
  const int64_t rows = call.N * call.OH;
  const int64_t grain = std::max<int64_t>(kGrain / std::max<int64_t>(src_row + dst_row, 1), 1);
  parallel_for(0, rows, grain, run);
}

}  // namespace cpuaccel::kernels
