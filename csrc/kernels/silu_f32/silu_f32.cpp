#include "kernels/silu_f32/silu_f32.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<SiluF32Function>, name, silu_f32_##name)
#include "kernels/silu_f32/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 16384;

}  // namespace

std::span<const KernelRow<SiluF32Function>> silu_f32_kernels() { return kRows; }

void silu_f32(const float* src, float* dst, int64_t count) {
  const auto function = first_usable(silu_f32_kernels()).function;
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin);
  });
}

}  // namespace cpuaccel::kernels
