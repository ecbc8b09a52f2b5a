#include "kernels/quantize/quantize.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<QuantizeFunction>{#name, isa, quantize_##name},
constexpr std::array kRows{CPUACCEL_QUANTIZE_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

constexpr int64_t kGrain = 16384;

void quantize(const float* src, uint8_t* dst, int64_t count, float scale, int32_t zero_point,
              uint8_t offset) {
  const auto function = first_usable(quantize_kernels()).function;
  const float inverse_scale = 1.0f / scale;
  const auto added = static_cast<float>(zero_point);
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin, inverse_scale, added, offset);
  });
}

}  // namespace

std::span<const KernelRow<QuantizeFunction>> quantize_kernels() { return kRows; }

void quantize_u8(const float* src, uint8_t* dst, int64_t count, float scale, int32_t zero_point) {
  quantize(src, dst, count, scale, zero_point, 0);
}

void quantize_s8(const float* src, int8_t* dst, int64_t count, float scale, int32_t zero_point) {
  quantize(src, reinterpret_cast<uint8_t*>(dst), count, scale, zero_point, 128);
}

}  // namespace cpuaccel::kernels
