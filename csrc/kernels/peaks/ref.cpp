#include <cstring>

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {

// One addition takes one cycle, and each depends on the one before.
int64_t peak_clock_ref(int64_t iterations) {
  constexpr int kAdditions = 16;
  uint64_t sum = 0;
  uint64_t step = 1;
  CPUACCEL_OPAQUE("r", step);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int addition = 0; addition < kAdditions; ++addition) {
      sum += step;
      CPUACCEL_OPAQUE("r", sum);
    }
  }
  return iterations * kAdditions;
}

void peak_read_ref(const std::byte* src, std::byte* /*dst*/, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) {
#pragma GCC unroll 8
    for (int64_t word = 0; word < 64; word += 8) {
      uint64_t value;
      std::memcpy(&value, src + i + word, sizeof value);
      CPUACCEL_USED("r", value);
    }
  }
}

void peak_copy_ref(const std::byte* src, std::byte* dst, int64_t bytes) {
  std::memcpy(dst, src, static_cast<size_t>(bytes));
}

}  // namespace cpuaccel::kernels
