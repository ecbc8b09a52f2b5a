#include "kernels/minmax/minmax.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<MinMaxFunction>, name, minmax_##name)
#include "kernels/minmax/kernels.inc"
#undef CPUACCEL_KERNEL
};

// 64 KiB of floats. Below that, waking a thread costs more than the pass.
constexpr int64_t kGrain = 16384;

}  // namespace

std::span<const KernelRow<MinMaxFunction>> minmax_kernels() { return kRows; }

MinMax minmax(const float* src, int64_t count) {
  const auto function = first_usable(minmax_kernels()).function;
  if (count <= kGrain) {
    return function(src, count);
  }
  MinMax total{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  std::mutex mutex;
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    const MinMax part = function(src + begin, end - begin);
    const std::scoped_lock lock(mutex);
    total.min = std::min(total.min, part.min);
    total.max = std::max(total.max, part.max);
  });
  return total;
}

}  // namespace cpuaccel::kernels
