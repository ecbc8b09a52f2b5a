#include "kernels/quantize/quantize.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "kernels/zero_point.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<QuantizeFunction>, name, quantize_##name)
#include "kernels/quantize/kernels.inc"
#undef CPUACCEL_KERNEL
};
constexpr std::array kScaledRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<QuantizeScaledFunction>, name, quantize_scaled_##name)
#include "kernels/quantize/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 16384;

void quantize(const float* src, uint8_t* dst, int64_t count, float scale, int32_t zero_point,
              uint8_t offset) {
  const auto function = first_usable(quantize_kernels()).function;
  const QuantizeBy by = quantize_by(1.0f / scale, zero_point, offset);
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin, by);
  });
}

}  // namespace

std::span<const KernelRow<QuantizeFunction>> quantize_kernels() { return kRows; }
std::span<const KernelRow<QuantizeScaledFunction>> quantize_scaled_kernels() { return kScaledRows; }

QuantizeBy quantize_by(float inverse_scale, int32_t zero_point, uint8_t offset) {
  if (zero_point_added() == ZeroPointAdded::after_rounding) {
    return {inverse_scale, 0.0f, zero_point, offset};
  }
  return {inverse_scale, static_cast<float>(zero_point), 0, offset};
}

void quantize_u8(const float* src, uint8_t* dst, int64_t count, float scale, int32_t zero_point) {
  quantize(src, dst, count, scale, zero_point, 0);
}

void quantize_s8(const float* src, int8_t* dst, int64_t count, float scale, int32_t zero_point) {
  quantize(src, reinterpret_cast<uint8_t*>(dst), count, scale, zero_point, 128);
}

void quantize_scaled_u8(const float* src, const float* factors, uint8_t* dst,
                        const QuantizeRows& shape, float scale, int32_t zero_point) {
  const auto function = first_usable(quantize_scaled_kernels()).function;
  const QuantizeBy by = quantize_by(1.0f / scale, zero_point);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, shape.columns));
  parallel_for(0, shape.images * shape.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      function(src + row * shape.columns, factors + row / shape.rows * shape.columns,
               dst + row * shape.columns, shape.columns, by);
    }
  });
}

}  // namespace cpuaccel::kernels
