#include <immintrin.h>

#include "kernels/channel_shuffle/impl.h"

namespace cpuaccel::kernels {
namespace {

inline void interleave16(const uint8_t* a, const uint8_t* b, uint8_t* dst) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
  const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
  auto* to = reinterpret_cast<__m128i*>(dst);
  _mm_storeu_si128(to, _mm_unpacklo_epi8(x, y));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi8(x, y));
}

}  // namespace

void channel_shuffle_x86_avx2(const ChannelShuffleSource* src, int64_t groups, uint8_t* dst,
                              int64_t rows, int64_t columns) {
  channel_shuffle_two(src, groups, dst, rows, columns, [](auto... of) { interleave16(of...); });
}

}  // namespace cpuaccel::kernels
