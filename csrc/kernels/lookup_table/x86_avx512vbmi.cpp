#include <immintrin.h>

#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::kernels {

// A permutation of two registers looks up the low seven bits of an index; the eighth bit selects
// the half of the table.
void lookup_table_x86_avx512vbmi(const uint8_t* src, uint8_t* dst, int64_t count,
                                 const uint8_t* table) {
  const __m512i part0 = _mm512_loadu_si512(table);
  const __m512i part1 = _mm512_loadu_si512(table + 64);
  const __m512i part2 = _mm512_loadu_si512(table + 128);
  const __m512i part3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < count; i += 64) {
    const int64_t left = count - i;
    const __mmask64 mask = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    const __m512i index = _mm512_maskz_loadu_epi8(mask, src + i);
    const __m512i low = _mm512_permutex2var_epi8(part0, index, part1);
    const __m512i high = _mm512_permutex2var_epi8(part2, index, part3);
    _mm512_mask_storeu_epi8(dst + i, mask,
                            _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
}

}  // namespace cpuaccel::kernels
