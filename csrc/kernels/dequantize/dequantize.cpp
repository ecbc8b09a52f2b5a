#include "kernels/dequantize/dequantize.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<DequantizeFunction>, name, dequantize_##name)
#include "kernels/dequantize/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 16384;

void dequantize(const uint8_t* src, float* dst, int64_t count, float scale, int32_t zero_point,
                uint8_t flipped_bits) {
  const auto function = first_usable(dequantize_kernels()).function;
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin, scale, zero_point, flipped_bits);
  });
}

}  // namespace

std::span<const KernelRow<DequantizeFunction>> dequantize_kernels() { return kRows; }

void dequantize_u8(const uint8_t* src, float* dst, int64_t count, float scale, int32_t zero_point) {
  dequantize(src, dst, count, scale, zero_point, 0);
}

void dequantize_s8(const int8_t* src, float* dst, int64_t count, float scale, int32_t zero_point) {
  dequantize(reinterpret_cast<const uint8_t*>(src), dst, count, scale, zero_point + 128, 0x80);
}

}  // namespace cpuaccel::kernels
