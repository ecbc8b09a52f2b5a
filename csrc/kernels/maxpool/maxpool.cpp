#include "kernels/maxpool/maxpool.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "base/scratch.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<MaxpoolFunction>, name, maxpool_##name)
#include "kernels/maxpool/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrainBytes = 131072;  // loaded bytes; a few us, the cost of waking a thread

}  // namespace

std::span<const KernelRow<MaxpoolFunction>> maxpool_kernels() { return kRows; }

void maxpool_u8(const MaxpoolShape& shape, const uint8_t* src, uint8_t* dst) {
  const auto function = first_usable(maxpool_kernels()).function;
  const int64_t src_row = shape.W * shape.C;
  const int64_t dst_row = shape.OW * shape.C;
  const auto run = [&](int64_t begin, int64_t end) {
    auto* rows =
        static_cast<uint8_t*>(scratch(ScratchSlot::accumulator, static_cast<size_t>(src_row)));
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* image = src + row / shape.OH * shape.H * src_row;
      function(shape, image, row % shape.OH, dst + row * dst_row, rows);
    }
  };
  const int64_t rows = shape.N * shape.OH;
  const int64_t loads = std::max<int64_t>(shape.KH * src_row + shape.KW * dst_row, 1);
  parallel_for(0, rows, std::max<int64_t>(kGrainBytes / loads, 1), run);
}

}  // namespace cpuaccel::kernels
