#include <immintrin.h>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kBytes = 4 * kLanes;

struct Quantizer {
  __m512 inverse_scale, before;
  __m512i after;    // 32 bits each
  __m512i offset;   // 16 bits each
  __m512i flipped;  // of bytes

  explicit Quantizer(const QuantizeBy& by)
      : inverse_scale(_mm512_set1_ps(by.inverse_scale)),
        before(_mm512_set1_ps(by.before)),
        after(_mm512_set1_epi32(by.after)),
        offset(_mm512_set1_epi16(by.offset)),
        flipped(_mm512_set1_epi8(static_cast<char>(by.offset))) {}

  // min returns the limit for a NaN. The conversion gives the smallest int32 below the limit.
  __m512i rounded(__m512 real) const {
    const __m512 value = _mm512_fmadd_ps(real, inverse_scale, before);
    const __m512 limited = _mm512_min_ps(value, _mm512_set1_ps(kQuantizeLimit));
    return _mm512_add_epi32(_mm512_cvtps_epi32(limited), after);
  }
  __m512i words(__m512 a, __m512 b) const {
    return _mm512_adds_epi16(_mm512_packs_epi32(rounded(a), rounded(b)), offset);
  }

  // The packs interleave the 128-bit lanes; the permutation restores the order of groups of four
  // bytes.
  __m512i operator()(__m512 a, __m512 b, __m512 c, __m512 d) const {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes =
        _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words(a, b), words(c, d)));
    return _mm512_xor_si512(bytes, flipped);
  }
};

// read(i, mask) returns the floats of the mask among the sixteen from index i on.
template <typename Read>
[[gnu::always_inline]] inline void quantize(Read read, uint8_t* dst, int64_t count,
                                            const QuantizeBy& by) {
  const Quantizer quantizer(by);
  constexpr __mmask16 kAll = 0xffff;
  int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) {
    const __m512i bytes = quantizer(read(i, kAll), read(i + kLanes, kAll),
                                    read(i + 2 * kLanes, kAll), read(i + 3 * kLanes, kAll));
    _mm512_storeu_si512(dst + i, bytes);
  }
  for (; i < count; i += kLanes) {
    const int64_t left = count - i;
    const auto mask = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1u << left) - 1u);
    const __m512 none = _mm512_setzero_ps();
    const __m512i bytes = quantizer(read(i, mask), none, none, none);
    _mm_mask_storeu_epi8(dst + i, mask, _mm512_castsi512_si128(bytes));
  }
}

}  // namespace

void quantize_x86_avx512(const float* src, uint8_t* dst, int64_t count, const QuantizeBy& by) {
  const auto read = [=](int64_t i, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, src + i); };
  quantize(read, dst, count, by);
}

void quantize_scaled_x86_avx512(const float* src, const float* factors, uint8_t* dst, int64_t count,
                                const QuantizeBy& by) {
  const auto read = [=](int64_t i, __mmask16 mask) {
    return _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, src + i),
                         _mm512_maskz_loadu_ps(mask, factors + i));
  };
  quantize(read, dst, count, by);
}

}  // namespace cpuaccel::kernels
