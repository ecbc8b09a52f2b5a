#include "kernels/clamp/clamp.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<ClampFunction>, name, clamp_##name)
#include "kernels/clamp/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 262144;  // at the speed of memory: some ten microseconds

constexpr uint8_t kSign = 0x80;

uint8_t flipped(int8_t value) { return static_cast<uint8_t>(static_cast<uint8_t>(value) ^ kSign); }

void clamp(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  const auto function = first_usable(clamp_kernels()).function;
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin, limits);
  });
}

}  // namespace

std::span<const KernelRow<ClampFunction>> clamp_kernels() { return kRows; }

void clamp_u8(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low, uint8_t high) {
  clamp(src, dst, count, {.low = low, .high = high});
}

void clamp_s8(const int8_t* src, int8_t* dst, int64_t count, int8_t low, int8_t high) {
  clamp(reinterpret_cast<const uint8_t*>(src), reinterpret_cast<uint8_t*>(dst), count,
        {.low = flipped(low), .high = flipped(high), .flipped_bits = kSign});
}

}  // namespace cpuaccel::kernels
