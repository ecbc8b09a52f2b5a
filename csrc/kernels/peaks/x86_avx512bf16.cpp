#include <immintrin.h>

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {

int64_t peak_bf16_x86_avx512bf16(int64_t iterations) {
  constexpr int kSums = 16;
  constexpr int kProducts = 32;
  __m512 sums[kSums] = {};
  auto a = reinterpret_cast<__m512bh>(_mm512_setzero_si512());
  auto b = a;
  CPUACCEL_OPAQUE("v", a);
  CPUACCEL_OPAQUE("v", b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, a, b);
      CPUACCEL_OPAQUE("v", sum);
    }
  }
  return iterations * kSums * kProducts;
}

}  // namespace cpuaccel::kernels
