#include "kernels/quantize/quantize.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<QuantizeFunction>{#name, isa, quantize_##name},
constexpr std::array kRows{CPUACCEL_QUANTIZE_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

constexpr int64_t kGrain = 16384;

}  // namespace

std::span<const KernelRow<QuantizeFunction>> quantize_kernels() { return kRows; }

void quantize_u8(const float* src, uint8_t* dst, int64_t count, float scale, int32_t zero_point) {
  const auto function = first_usable(quantize_kernels()).function;
  const float inverse_scale = 1.0f / scale;
  if (count <= kGrain) {
    function(src, dst, count, inverse_scale, zero_point);
    return;
  }
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin, inverse_scale, zero_point);
  });
}

}  // namespace cpuaccel::kernels
