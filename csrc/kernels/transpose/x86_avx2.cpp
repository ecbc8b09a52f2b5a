#include <immintrin.h>

#include "kernels/transpose/impl.h"

namespace cpuaccel::kernels {
namespace {

inline __m128i load16(const uint8_t* src) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
}
inline void store16(uint8_t* dst, __m128i value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), value);
}

// 32 rows of 16 bytes: two 16 x 16 matrices in the two 128-bit lanes. Interleaving row i with row i
// + 8 rotates the eight bits (row, column) of a byte's place by one. Doing so four times swaps row
// and column.
inline void transpose_block(const uint8_t* src, int64_t src_stride, uint8_t* dst,
                            int64_t dst_stride) {
  __m256i rows[16];
  for (int i = 0; i < 16; ++i) {
    rows[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(src + i * src_stride)),
                                      load16(src + (i + 16) * src_stride), 1);
  }
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    __m256i mixed[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      mixed[2 * i] = _mm256_unpacklo_epi8(rows[i], rows[i + 8]);
      mixed[2 * i + 1] = _mm256_unpackhi_epi8(rows[i], rows[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      rows[i] = mixed[i];
    }
  }
  for (int i = 0; i < 16; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i * dst_stride), rows[i]);
  }
}

struct Interleave2 {
  static constexpr int64_t kM = 2;
  static void columns(const uint8_t* src, int64_t stride, uint8_t* dst) {
    const __m128i a = load16(src), b = load16(src + stride);
    store16(dst, _mm_unpacklo_epi8(a, b));
    store16(dst + 16, _mm_unpackhi_epi8(a, b));
  }
};

struct Interleave3 {
  static constexpr int64_t kM = 3;
  // Byte p of the 48 is of row p % 3 and column p / 3; -1 gives 0.
  static void columns(const uint8_t* src, int64_t stride, uint8_t* dst) {
    const __m128i a = load16(src), b = load16(src + stride), c = load16(src + 2 * stride);
    const __m128i a0 = _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5);
    const __m128i b0 = _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1);
    const __m128i c0 = _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1);
    const __m128i a1 = _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1);
    const __m128i b1 = _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10);
    const __m128i c1 = _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1);
    const __m128i a2 =
        _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1);
    const __m128i b2 =
        _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1);
    const __m128i c2 =
        _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15);
    store16(dst, any(_mm_shuffle_epi8(a, a0), _mm_shuffle_epi8(b, b0), _mm_shuffle_epi8(c, c0)));
    store16(dst + 16,
            any(_mm_shuffle_epi8(a, a1), _mm_shuffle_epi8(b, b1), _mm_shuffle_epi8(c, c1)));
    store16(dst + 32,
            any(_mm_shuffle_epi8(a, a2), _mm_shuffle_epi8(b, b2), _mm_shuffle_epi8(c, c2)));
  }
  static __m128i any(__m128i a, __m128i b, __m128i c) {
    return _mm_or_si128(_mm_or_si128(a, b), c);
  }
};

struct Interleave4 {
  static constexpr int64_t kM = 4;
  static void columns(const uint8_t* src, int64_t stride, uint8_t* dst) {
    const __m128i a = load16(src), b = load16(src + stride);
    const __m128i c = load16(src + 2 * stride), d = load16(src + 3 * stride);
    const __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
    const __m128i cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
    store16(dst, _mm_unpacklo_epi16(ab0, cd0));
    store16(dst + 16, _mm_unpackhi_epi16(ab0, cd0));
    store16(dst + 32, _mm_unpacklo_epi16(ab1, cd1));
    store16(dst + 48, _mm_unpackhi_epi16(ab1, cd1));
  }
};

struct Block {
  static constexpr int64_t kM = 32, kK = 16;
  using Rows2 = Interleave2;
  using Rows3 = Interleave3;
  using Rows4 = Interleave4;
  static void of(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride) {
    transpose_block(src, src_stride, dst, dst_stride);
  }
};

}  // namespace

void transpose_x86_avx2(const Transpose& shape, const uint8_t* src, uint8_t* dst) {
  transpose_by<Block>(shape, src, dst);
}

}  // namespace cpuaccel::kernels
