#include "kernels/channel_scale/channel_scale.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<ChannelScaleFunction>, name, channel_scale_##name)
#include "kernels/channel_scale/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 32768;  // elements; some microseconds of work
// Short rows are processed several at a time, about this many elements, with repeated scales.
constexpr int64_t kLeastRow = 512;

template <typename T, typename Kernel>
void scale_rows(Kernel kernel, const T* src, const T* scale, T* dst, int64_t rows,
                int64_t columns) {
  const int64_t together = std::clamp<int64_t>(kLeastRow / columns, 1, std::max<int64_t>(rows, 1));
  std::vector<T> scales;
  if (together > 1) {
    scales.reserve(static_cast<size_t>(together * columns));
    for (int64_t i = 0; i < together; ++i) {
      scales.insert(scales.end(), scale, scale + columns);
    }
    scale = scales.data();
  }
  parallel_for(0, rows, std::max<int64_t>(1, kGrain / columns), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += together) {
      const int64_t at = r * columns;
      kernel(src + at, scale, dst + at, std::min(together, end - r) * columns);
    }
  });
}

}  // namespace

std::span<const KernelRow<ChannelScaleFunction>> channel_scale_kernels() { return kRows; }

void channel_scale(const float* src, const float* scale, float* dst, int64_t rows,
                   int64_t columns) {
  scale_rows(first_usable(channel_scale_kernels()).function().f32, src, scale, dst, rows, columns);
}

void channel_scale(const uint16_t* src, const uint16_t* scale, uint16_t* dst, int64_t rows,
                   int64_t columns) {
  scale_rows(first_usable(channel_scale_kernels()).function().bf16, src, scale, dst, rows, columns);
}

}  // namespace cpuaccel::kernels
