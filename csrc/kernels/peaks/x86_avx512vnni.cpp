#include <immintrin.h>

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {

int64_t peak_int8_x86_avx512vnni(int64_t iterations) {
  constexpr int kSums = 16;
  constexpr int kProducts = 64;
  __m512i sums[kSums] = {};
  __m512i a = _mm512_set1_epi8(1);
  __m512i b = a;
  CPUACCEL_OPAQUE("v", a);
  CPUACCEL_OPAQUE("v", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
      CPUACCEL_OPAQUE("v", sum);
    }
  }
  return iterations * kSums * kProducts;
}

}  // namespace cpuaccel::kernels
