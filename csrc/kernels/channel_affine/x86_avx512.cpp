#include <immintrin.h>

#include "kernels/channel_affine/channel_affine.h"

namespace cpuaccel::kernels {

void channel_affine_x86_avx512(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst,
                               int64_t P) {
  const int64_t C = affine.C;
  const __m512i src_zero_point = _mm512_set1_epi32(affine.src_zero_point);
  const __m512i dst_zero_point = _mm512_set1_epi32(affine.dst_zero_point);
  const __m512i lowest = _mm512_set1_epi32(affine.lowest);
  for (int64_t p = 0; p < P; ++p) {
    for (int64_t c = 0; c < C; c += 16) {
      const int64_t left = C - c;
      const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1u << left) - 1u);
      const __m512i bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, src + c));
      const __m512 centered = _mm512_cvtepi32_ps(_mm512_sub_epi32(bytes, src_zero_point));
      const __m512 value = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, affine.factor + c), centered,
                                           _mm512_maskz_loadu_ps(mask, affine.offset + c));
      const __m512i steps = _mm512_add_epi32(_mm512_cvtps_epi32(value), dst_zero_point);
      _mm_mask_storeu_epi8(dst + c, mask, _mm512_cvtusepi32_epi8(_mm512_max_epi32(steps, lowest)));
    }
    src += C;
    dst += C;
  }
}

}  // namespace cpuaccel::kernels
