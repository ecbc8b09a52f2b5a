#include <immintrin.h>

#include "kernels/channel_affine/channel_affine.h"

namespace cpuaccel::kernels {
namespace {

struct Constants {
  explicit Constants(const ChannelAffine& affine)
      : factor(affine.factor),
        offset(affine.offset),
        src_zero_point(_mm256_set1_ps(8388608.0f + static_cast<float>(affine.src_zero_point))),
        dst_zero_point(_mm256_set1_epi16(static_cast<int16_t>(affine.dst_zero_point))),
        lowest(_mm256_set1_epi8(static_cast<char>(affine.lowest))) {}
  const float* factor;
  const float* offset;
  __m256 src_zero_point;  // plus 2^23
  __m256i dst_zero_point;
  __m256i lowest;
};

// Eight bytes as floats, minus the zero point. A byte in the low bits of the float 2^23 gives the
// float 2^23 + byte.
inline __m256 centered8(const Constants& k, __m256i bytes, __m256i places) {
  const __m256i floats =
      _mm256_or_si256(_mm256_shuffle_epi8(bytes, places), _mm256_set1_epi32(0x4b000000));
  return _mm256_sub_ps(_mm256_castsi256_ps(floats), k.src_zero_point);
}

// Channels [c, c + 8), rounded, without dst_zero_point.
inline __m256i steps8(const Constants& k, __m256 centered, int64_t c) {
  return _mm256_cvtps_epi32(
      _mm256_fmadd_ps(_mm256_loadu_ps(k.factor + c), centered, _mm256_loadu_ps(k.offset + c)));
}

// The shuffle that puts bytes 0 to 7 (with 8 added, 8 to 15) into 32-bit lanes; -1 gives 0.
inline __m256i first_places() {
  return _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1,  //
                          4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1);
}
inline __m256i second_places() { return _mm256_add_epi32(first_places(), _mm256_set1_epi32(8)); }

struct Steps16 {
  __m256i low, high;
};
inline Steps16 steps16(const Constants& k, const uint8_t* src, int64_t c) {
  const __m256i bytes =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + c)));
  return {steps8(k, centered8(k, bytes, first_places()), c),
          steps8(k, centered8(k, bytes, second_places()), c + 8)};
}

inline __m256i only8(const Constants& k, const uint8_t* src, int64_t c) {
  const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si64(src + c));
  return steps8(k, centered8(k, bytes, first_places()), c);
}

// The packs interleave the 128-bit lanes; this puts the groups of four bytes back in order.
inline void store32(const Constants& k, __m256i a, __m256i b, __m256i c, __m256i d, uint8_t* dst) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(a, b), k.dst_zero_point);
  const __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(c, d), k.dst_zero_point);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm256_max_epu8(bytes, k.lowest));
}

inline void store8(const Constants& k, __m256i a, uint8_t* dst) {
  const __m128i words =
      _mm_adds_epi16(_mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)),
                     _mm256_castsi256_si128(k.dst_zero_point));
  const __m128i bytes = _mm_packus_epi16(words, words);
  _mm_storeu_si64(dst, _mm_max_epu8(bytes, _mm256_castsi256_si128(k.lowest)));
}

}  // namespace

void channel_affine_x86_avx2(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst,
                             int64_t P) {
  const int64_t C = affine.C;
  if (C < 8) {
    channel_affine_ref(affine, src, dst, P);
    return;
  }
  const Constants k(affine);
  for (int64_t p = 0; p < P; ++p) {
    int64_t c = 0;
    for (; c + 32 <= C; c += 32) {
      const Steps16 a = steps16(k, src, c), b = steps16(k, src, c + 16);
      store32(k, a.low, a.high, b.low, b.high, dst + c);
    }
    for (; c + 8 <= C; c += 8) {
      store8(k, only8(k, src, c), dst + c);
    }
    if (c < C) {  // some channels twice
      store8(k, only8(k, src, C - 8), dst + C - 8);
    }
    src += C;
    dst += C;
  }
}

}  // namespace cpuaccel::kernels
