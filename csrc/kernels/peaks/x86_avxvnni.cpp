#include <immintrin.h>

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {

int64_t peak_int8_x86_avxvnni(int64_t iterations) {
  constexpr int kSums = 12;
  constexpr int kProducts = 32;
  __m256i sums[kSums] = {};
  __m256i a = _mm256_set1_epi8(1);
  __m256i b = a;
  CPUACCEL_OPAQUE("x", a);
  CPUACCEL_OPAQUE("x", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = _mm256_dpbusd_avx_epi32(sum, a, b);
      CPUACCEL_OPAQUE("x", sum);
    }
  }
  return iterations * kSums * kProducts;
}

}  // namespace cpuaccel::kernels
