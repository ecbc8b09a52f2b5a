#include <immintrin.h>

#include "kernels/peaks/loops.h"

namespace cpuaccel::kernels {

int64_t peak_int8_x86_avxvnni(int64_t iterations) {
  const __m256i a = opaque(_mm256_set1_epi8(1)), b = opaque(_mm256_set1_epi8(1));
  return repeat<12, __m256i>(iterations, 32,
                             [=](__m256i sum) { return _mm256_dpbusd_avx_epi32(sum, a, b); });
}

}  // namespace cpuaccel::kernels
