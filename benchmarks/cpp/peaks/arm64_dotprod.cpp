#include <arm_neon.h>

#include "peaks/peak_kernels.h"

namespace cpuaccel::bench {

int64_t peak_int8_arm64_dotprod(int64_t iterations) {
  constexpr int kSums = 20;
  constexpr int kProducts = 16;
  int32x4_t sums[kSums] = {};
  int8x16_t a = vdupq_n_s8(1);
  int8x16_t b = a;
  CPUACCEL_OPAQUE("w", a);
  CPUACCEL_OPAQUE("w", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 20
    for (auto& sum : sums) {
      sum = vdotq_s32(sum, a, b);
      CPUACCEL_OPAQUE("w", sum);
    }
  }
  return iterations * kSums * kProducts;
}

}  // namespace cpuaccel::bench
