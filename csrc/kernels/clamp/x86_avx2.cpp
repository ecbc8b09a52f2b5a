#include <immintrin.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_x86_avx2(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  const __m256i lower = _mm256_set1_epi8(static_cast<char>(limits.low));
  const __m256i upper = _mm256_set1_epi8(static_cast<char>(limits.high));
  const __m256i flipped = _mm256_set1_epi8(static_cast<char>(limits.flipped_bits));
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
    const __m256i value = _mm256_max_epu8(_mm256_xor_si256(bytes, flipped), lower);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i),
                        _mm256_xor_si256(_mm256_min_epu8(value, upper), flipped));
  }
  clamp_ref(src + i, dst + i, count - i, limits);
}

}  // namespace cpuaccel::kernels
