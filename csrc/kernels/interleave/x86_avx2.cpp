#include <immintrin.h>

#include "kernels/interleave/interleave.h"

namespace cpuaccel::kernels {
namespace {

// 16 bytes of each of two sources.
inline void interleave16(const uint8_t* a, const uint8_t* b, uint8_t* dst) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
  const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
  auto* to = reinterpret_cast<__m128i*>(dst);
  _mm_storeu_si128(to, _mm_unpacklo_epi8(x, y));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi8(x, y));
}

}  // namespace

void interleave_x86_avx2(const InterleaveSource* src, int64_t groups, uint8_t* dst, int64_t rows,
                         int64_t columns) {
  if (groups != 2 || columns < 16) {
    interleave_ref(src, groups, dst, rows, columns);
    return;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* a = src[0].data + row * src[0].pitch;
    const uint8_t* b = src[1].data + row * src[1].pitch;
    uint8_t* to = dst + row * columns * 2;
    int64_t c = 0;
    for (; c + 16 <= columns; c += 16) {
      interleave16(a + c, b + c, to + 2 * c);
    }
    if (c < columns) {  // the last 16 once more, in part
      c = columns - 16;
      interleave16(a + c, b + c, to + 2 * c);
    }
  }
}

}  // namespace cpuaccel::kernels
