#include <immintrin.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

// Uses 256-bit vectors. Zen 4 stores no more than 256 bits per cycle, and 512-bit vectors take up
// to a third longer if dst lies 64 or 128 bytes after src within their pages.
void clamp_x86_avx512(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  const __m256i lower = _mm256_set1_epi8(static_cast<char>(limits.low));
  const __m256i upper = _mm256_set1_epi8(static_cast<char>(limits.high));
  const __m256i flipped = _mm256_set1_epi8(static_cast<char>(limits.flipped_bits));
  const auto limited = [&](__m256i bytes) {
    const __m256i value = _mm256_max_epu8(_mm256_xor_si256(bytes, flipped), lower);
    return _mm256_xor_si256(_mm256_min_epu8(value, upper), flipped);
  };
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), limited(bytes));
  }
  if (i < count) {
    const auto mask = static_cast<__mmask32>((uint64_t{1} << (count - i)) - 1);
    _mm256_mask_storeu_epi8(dst + i, mask, limited(_mm256_maskz_loadu_epi8(mask, src + i)));
  }
}

}  // namespace cpuaccel::kernels
