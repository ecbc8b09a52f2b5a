#include "kernels/any_byte_above/any_byte_above.h"

#include <array>
#include <atomic>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<AnyByteAboveFunction>, name, any_byte_above_##name)
#include "kernels/any_byte_above/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Waking a thread costs more than a pass over fewer bytes.
constexpr int64_t kGrain = 128 * 1024;

}  // namespace

std::span<const KernelRow<AnyByteAboveFunction>> any_byte_above_kernels() { return kRows; }

bool any_byte_above(const uint8_t* src, int64_t count, uint8_t limit) {
  const auto function = first_usable(any_byte_above_kernels()).function;
  if (count <= kGrain) {
    return function(src, count, limit);
  }
  std::atomic<bool> any{false};
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    if (!any.load(std::memory_order_relaxed) && function(src + begin, end - begin, limit)) {
      any.store(true, std::memory_order_relaxed);
    }
  });
  return any.load(std::memory_order_relaxed);
}

}  // namespace cpuaccel::kernels
