#include <immintrin.h>

#include "kernels/peaks/loops.h"

namespace cpuaccel::kernels {

int64_t peak_bf16_x86_avx512bf16(int64_t iterations) {
  const auto zero = reinterpret_cast<__m512bh>(_mm512_setzero_si512());
  const auto a = opaque(zero), b = opaque(zero);
  return repeat<16, __m512>(iterations, 32,
                            [=](__m512 sum) { return _mm512_dpbf16_ps(sum, a, b); });
}

}  // namespace cpuaccel::kernels
