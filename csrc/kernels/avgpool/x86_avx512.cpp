#include <immintrin.h>

#include "kernels/avgpool/window.h"

namespace cpuaccel::kernels {
namespace {

struct Avx512 {
  using Type = __m512i;
  using Floats = __m512;
  static constexpr int64_t kBytes = 64;
  __mmask64 mask = ~__mmask64{0};
  Type load(const uint8_t* src) const { return _mm512_maskz_loadu_epi8(mask, src); }
  void store(uint8_t* dst, Type a) const { _mm512_mask_storeu_epi8(dst, mask, a); }
  static Type zero() { return _mm512_setzero_si512(); }
  static Type fill16(int a) { return _mm512_set1_epi16(static_cast<int16_t>(a)); }
  static Type fill32(int32_t a) { return _mm512_set1_epi32(a); }
  static Floats fill(float a) { return _mm512_set1_ps(a); }
  static Type low8(Type a) { return _mm512_and_si512(a, _mm512_set1_epi16(0xff)); }
  static Type high8(Type a) { return _mm512_srli_epi16(a, 8); }
  static Type low16(Type a) { return _mm512_and_si512(a, _mm512_set1_epi32(0xffff)); }
  static Type high16(Type a) { return _mm512_srli_epi32(a, 16); }
  static Type add16(Type a, Type b) { return _mm512_add_epi16(a, b); }
  static Type add16_saturating(Type a, Type b) { return _mm512_adds_epi16(a, b); }
  static Type subtract16(Type a, Type b) { return _mm512_sub_epi16(a, b); }
  static Type multiply16(Type a, Type b) { return _mm512_mullo_epi16(a, b); }
  static Type multiply_high16(Type a, Type b) { return _mm512_mulhi_epu16(a, b); }
  static Type shift_right16(Type a, int bits) {
    return _mm512_srl_epi16(a, _mm_cvtsi32_si128(bits));
  }
  static Type equal16(Type a, Type b) { return _mm512_movm_epi16(_mm512_cmpeq_epi16_mask(a, b)); }
  static Type bits_and(Type a, Type b) { return _mm512_and_si512(a, b); }
  // Interleaves even and odd bytes, each in a 16-bit lane.
  static Type zip8(Type even, Type odd) { return _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)); }
  static Type add32(Type a, Type b) { return _mm512_add_epi32(a, b); }
  static Type zip16_low(Type a, Type b) { return _mm512_unpacklo_epi16(a, b); }
  static Type zip16_high(Type a, Type b) { return _mm512_unpackhi_epi16(a, b); }
  static Type zip32_low(Type a, Type b) { return _mm512_unpacklo_epi32(a, b); }
  static Type zip32_high(Type a, Type b) { return _mm512_unpackhi_epi32(a, b); }
  static Type zip64_low(Type a, Type b) { return _mm512_unpacklo_epi64(a, b); }
  static Type zip64_high(Type a, Type b) { return _mm512_unpackhi_epi64(a, b); }
  static Type pack32(Type a, Type b) { return _mm512_packs_epi32(a, b); }
  static Type pack16(Type a, Type b) { return _mm512_packus_epi16(a, b); }
  static Floats to_floats(Type a) { return _mm512_cvtepi32_ps(a); }
  static Type rounded(Floats a) { return _mm512_cvtps_epi32(a); }
  static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace

void avgpool_x86_avx512(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                        int64_t channels) {
  const Average<Avx512> average{window};
  int64_t c = 0;
  for (; c + 4 * Avx512::kBytes <= channels; c += 4 * Avx512::kBytes) {
    average.run<4>(Avx512(), src + c, dst + c);
  }
  for (; c < channels; c += Avx512::kBytes) {
    const int64_t left = channels - c;
    const __mmask64 all = ~__mmask64{0};
    average.run<1>(Avx512{left >= Avx512::kBytes ? all : all >> (Avx512::kBytes - left)}, src + c,
                   dst + c);
  }
}

}  // namespace cpuaccel::kernels
