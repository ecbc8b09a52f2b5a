#include "kernels/maxpool_f32/maxpool_f32.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<MaxpoolF32Function>, name, maxpool_f32_##name)
#include "kernels/maxpool_f32/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 32768;  // taps

}  // namespace

std::span<const KernelRow<MaxpoolF32Function>> maxpool_f32_kernels() { return kRows; }

void maxpool_f32(const MaxpoolF32Shape& s, const float* src, float* dst, int64_t* indices) {
  const auto function = first_usable(maxpool_f32_kernels()).function;
  const int64_t grain = std::max<int64_t>(1, kGrain / (s.OH * s.OW * s.KH * s.KW));
  parallel_for(0, s.planes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t at = p * s.OH * s.OW;
      function(s, src + p * s.H * s.W, dst + at, indices + at);
    }
  });
}

}  // namespace cpuaccel::kernels
