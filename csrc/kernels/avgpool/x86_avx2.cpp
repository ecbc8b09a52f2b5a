#include <immintrin.h>

#include "kernels/avgpool/window.h"

namespace cpuaccel::kernels {
namespace {

struct Avx2 {
  using Type = __m256i;
  using Floats = __m256;
  static constexpr int64_t kBytes = 32;
  static Type load(const uint8_t* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  static void store(uint8_t* dst, Type a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), a);
  }
  static Type zero() { return _mm256_setzero_si256(); }
  static Type fill16(int a) { return _mm256_set1_epi16(static_cast<int16_t>(a)); }
  static Type fill32(int32_t a) { return _mm256_set1_epi32(a); }
  static Floats fill(float a) { return _mm256_set1_ps(a); }
  static Type low8(Type a) { return _mm256_and_si256(a, _mm256_set1_epi16(0xff)); }
  static Type high8(Type a) { return _mm256_srli_epi16(a, 8); }
  static Type low16(Type a) { return _mm256_and_si256(a, _mm256_set1_epi32(0xffff)); }
  static Type high16(Type a) { return _mm256_srli_epi32(a, 16); }
  static Type add16(Type a, Type b) { return _mm256_add_epi16(a, b); }
  static Type add16_saturating(Type a, Type b) { return _mm256_adds_epi16(a, b); }
  static Type subtract16(Type a, Type b) { return _mm256_sub_epi16(a, b); }
  static Type multiply16(Type a, Type b) { return _mm256_mullo_epi16(a, b); }
  static Type multiply_high16(Type a, Type b) { return _mm256_mulhi_epu16(a, b); }
  static Type shift_right16(Type a, int bits) {
    return _mm256_srl_epi16(a, _mm_cvtsi32_si128(bits));
  }
  static Type equal16(Type a, Type b) { return _mm256_cmpeq_epi16(a, b); }
  static Type bits_and(Type a, Type b) { return _mm256_and_si256(a, b); }
  // Interleaves even and odd bytes, each in a 16-bit lane.
  static Type zip8(Type even, Type odd) { return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)); }
  static Type add32(Type a, Type b) { return _mm256_add_epi32(a, b); }
  static Type zip16_low(Type a, Type b) { return _mm256_unpacklo_epi16(a, b); }
  static Type zip16_high(Type a, Type b) { return _mm256_unpackhi_epi16(a, b); }
  static Type zip32_low(Type a, Type b) { return _mm256_unpacklo_epi32(a, b); }
  static Type zip32_high(Type a, Type b) { return _mm256_unpackhi_epi32(a, b); }
  static Type zip64_low(Type a, Type b) { return _mm256_unpacklo_epi64(a, b); }
  static Type zip64_high(Type a, Type b) { return _mm256_unpackhi_epi64(a, b); }
  static Type pack32(Type a, Type b) { return _mm256_packs_epi32(a, b); }
  static Type pack16(Type a, Type b) { return _mm256_packus_epi16(a, b); }
  static Floats to_floats(Type a) { return _mm256_cvtepi32_ps(a); }
  static Type rounded(Floats a) { return _mm256_cvtps_epi32(a); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
};

struct Avx2Half {
  using Type = __m128i;
  using Floats = __m128;
  static constexpr int64_t kBytes = 16;
  static Type load(const uint8_t* src) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
  }
  static void store(uint8_t* dst, Type a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), a); }
  static Type zero() { return _mm_setzero_si128(); }
  static Type fill16(int a) { return _mm_set1_epi16(static_cast<int16_t>(a)); }
  static Type fill32(int32_t a) { return _mm_set1_epi32(a); }
  static Floats fill(float a) { return _mm_set1_ps(a); }
  static Type low8(Type a) { return _mm_and_si128(a, _mm_set1_epi16(0xff)); }
  static Type high8(Type a) { return _mm_srli_epi16(a, 8); }
  static Type low16(Type a) { return _mm_and_si128(a, _mm_set1_epi32(0xffff)); }
  static Type high16(Type a) { return _mm_srli_epi32(a, 16); }
  static Type add16(Type a, Type b) { return _mm_add_epi16(a, b); }
  static Type add16_saturating(Type a, Type b) { return _mm_adds_epi16(a, b); }
  static Type subtract16(Type a, Type b) { return _mm_sub_epi16(a, b); }
  static Type multiply16(Type a, Type b) { return _mm_mullo_epi16(a, b); }
  static Type multiply_high16(Type a, Type b) { return _mm_mulhi_epu16(a, b); }
  static Type shift_right16(Type a, int bits) { return _mm_srl_epi16(a, _mm_cvtsi32_si128(bits)); }
  static Type equal16(Type a, Type b) { return _mm_cmpeq_epi16(a, b); }
  static Type bits_and(Type a, Type b) { return _mm_and_si128(a, b); }
  // Interleaves even and odd bytes, each in a 16-bit lane.
  static Type zip8(Type even, Type odd) { return _mm_or_si128(even, _mm_slli_epi16(odd, 8)); }
  static Type add32(Type a, Type b) { return _mm_add_epi32(a, b); }
  static Type zip16_low(Type a, Type b) { return _mm_unpacklo_epi16(a, b); }
  static Type zip16_high(Type a, Type b) { return _mm_unpackhi_epi16(a, b); }
  static Type zip32_low(Type a, Type b) { return _mm_unpacklo_epi32(a, b); }
  static Type zip32_high(Type a, Type b) { return _mm_unpackhi_epi32(a, b); }
  static Type zip64_low(Type a, Type b) { return _mm_unpacklo_epi64(a, b); }
  static Type zip64_high(Type a, Type b) { return _mm_unpackhi_epi64(a, b); }
  static Type pack32(Type a, Type b) { return _mm_packs_epi32(a, b); }
  static Type pack16(Type a, Type b) { return _mm_packus_epi16(a, b); }
  static Floats to_floats(Type a) { return _mm_cvtepi32_ps(a); }
  static Type rounded(Floats a) { return _mm_cvtps_epi32(a); }
  static Floats multiply(Floats a, Floats b) { return _mm_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }
};

struct Avx2Quarter : Avx2Half {
  static constexpr int64_t kBytes = 8;
  static Type load(const uint8_t* src) { return _mm_loadu_si64(src); }
  static void store(uint8_t* dst, Type a) { _mm_storeu_si64(dst, a); }
};

}  // namespace

void avgpool_x86_avx2(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                      int64_t channels) {
  if (channels < Avx2Quarter::kBytes) {
    return avgpool_ref(window, src, dst, channels);
  }
  if (channels < Avx2Half::kBytes) {
    return average_two<Avx2Quarter>(window, src, dst, channels);
  }
  if (channels < Avx2::kBytes) {
    return average_two<Avx2Half>(window, src, dst, channels);
  }
  const Average<Avx2> average{window};
  int64_t c = 0;
  for (; c + 4 * Avx2::kBytes <= channels; c += 4 * Avx2::kBytes) {
    average.run<4>(Avx2(), src + c, dst + c);
  }
  for (; c < channels; c += Avx2::kBytes) {
    const int64_t first = c + Avx2::kBytes <= channels ? c : channels - Avx2::kBytes;
    average.run<1>(Avx2(), src + first, dst + first);
  }
}

}  // namespace cpuaccel::kernels
