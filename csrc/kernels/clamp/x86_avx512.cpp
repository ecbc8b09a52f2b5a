#include <immintrin.h>

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {

void clamp_x86_avx512(const uint8_t* src, uint8_t* dst, int64_t count, uint8_t low, uint8_t high) {
  const __m512i lower = _mm512_set1_epi8(static_cast<char>(low));
  const __m512i upper = _mm512_set1_epi8(static_cast<char>(high));
  for (int64_t i = 0; i < count; i += 64) {
    const int64_t left = count - i;
    const __mmask64 mask = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    const __m512i value = _mm512_maskz_loadu_epi8(mask, src + i);
    _mm512_mask_storeu_epi8(dst + i, mask, _mm512_min_epu8(_mm512_max_epu8(value, lower), upper));
  }
}

}  // namespace cpuaccel::kernels
