#include <immintrin.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_x86_avx2(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low, uint8_t high) {
  const __m256i lower = _mm256_set1_epi8(static_cast<char>(low));
  const __m256i upper = _mm256_set1_epi8(static_cast<char>(high));
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i),
                        _mm256_min_epu8(_mm256_max_epu8(value, lower), upper));
  }
  clamp_ref(src + i, dst + i, count - i, low, high);
}

}  // namespace cpuaccel::kernels
