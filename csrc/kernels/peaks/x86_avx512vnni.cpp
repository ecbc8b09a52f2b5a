#include <immintrin.h>

#include "kernels/peaks/loops.h"

namespace cpuaccel::kernels {

int64_t peak_int8_x86_avx512vnni(int64_t iterations) {
  const __m512i a = opaque(_mm512_set1_epi8(1)), b = opaque(_mm512_set1_epi8(1));
  return repeat<16, __m512i>(iterations, 64,
                             [=](__m512i sum) { return _mm512_dpbusd_epi32(sum, a, b); });
}

}  // namespace cpuaccel::kernels
