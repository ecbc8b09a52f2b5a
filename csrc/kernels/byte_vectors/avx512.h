// AVX-512 vector classes of 64 bytes, and of 32 with masks, with the operations that
// byte_vectors/avx2.h lists. Included with AVX-512's flags only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/byte_vectors/avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Bytes64 {
  using Vector = __m512i;
  using Words = Vector;
  using Ints = Vector;
  using Floats = __m512;
  using Mask = __mmask64;
  static constexpr int64_t kBytes = 64;

  CPUACCEL_INLINE static Vector load(const uint8_t* src) { return _mm512_loadu_si512(src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a) { _mm512_storeu_si512(dst, a); }
  CPUACCEL_INLINE static Words zero16() { return _mm512_setzero_si512(); }
  CPUACCEL_INLINE static Vector set8(int a) { return _mm512_set1_epi8(static_cast<int8_t>(a)); }
  CPUACCEL_INLINE static Words set16(int a) { return _mm512_set1_epi16(static_cast<int16_t>(a)); }
  CPUACCEL_INLINE static Ints set32(int32_t a) { return _mm512_set1_epi32(a); }
  CPUACCEL_INLINE static Floats set_float(float a) { return _mm512_set1_ps(a); }

  CPUACCEL_INLINE static Words bits_and16(Words a, Words b) { return _mm512_and_si512(a, b); }
  CPUACCEL_INLINE static Vector bits_xor(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
  CPUACCEL_INLINE static Vector max8(Vector a, Vector b) { return _mm512_max_epu8(a, b); }
  CPUACCEL_INLINE static Vector min8(Vector a, Vector b) { return _mm512_min_epu8(a, b); }
  CPUACCEL_INLINE static Vector subtract8_saturating(Vector a, Vector b) {
    return _mm512_subs_epi8(a, b);
  }
  CPUACCEL_INLINE static Vector repeat16(const uint8_t* src) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
  }
  CPUACCEL_INLINE static Vector shuffle8(Vector bytes, Vector index) {
    return _mm512_shuffle_epi8(bytes, index);
  }

  CPUACCEL_INLINE static Words add16(Words a, Words b) { return _mm512_add_epi16(a, b); }
  CPUACCEL_INLINE static Words add16_saturating(Words a, Words b) {
    return _mm512_adds_epi16(a, b);
  }
  CPUACCEL_INLINE static Words subtract16(Words a, Words b) { return _mm512_sub_epi16(a, b); }
  CPUACCEL_INLINE static Words multiply16(Words a, Words b) { return _mm512_mullo_epi16(a, b); }
  CPUACCEL_INLINE static Words multiply_high16(Words a, Words b) {
    return _mm512_mulhi_epu16(a, b);
  }
  CPUACCEL_INLINE static Words shift_right16(Words a, int bits) {
    return _mm512_srl_epi16(a, _mm_cvtsi32_si128(bits));
  }
  CPUACCEL_INLINE static Words equal16(Words a, Words b) {
    return _mm512_movm_epi16(_mm512_cmpeq_epi16_mask(a, b));
  }
  CPUACCEL_INLINE static Ints add32(Ints a, Ints b) { return _mm512_add_epi32(a, b); }

  CPUACCEL_INLINE static Words even8(Vector a) {
    return _mm512_and_si512(a, _mm512_set1_epi16(0xff));
  }
  CPUACCEL_INLINE static Words odd8(Vector a) { return _mm512_srli_epi16(a, 8); }
  CPUACCEL_INLINE static Ints even16(Words a) {
    return _mm512_and_si512(a, _mm512_set1_epi32(0xffff));
  }
  CPUACCEL_INLINE static Ints odd16(Words a) { return _mm512_srli_epi32(a, 16); }
  CPUACCEL_INLINE static Vector join8(Words even, Words odd) {
    return _mm512_or_si512(even, _mm512_slli_epi16(odd, 8));
  }
  CPUACCEL_INLINE static Words zip16_low(Words a, Words b) { return _mm512_unpacklo_epi16(a, b); }
  CPUACCEL_INLINE static Words zip16_high(Words a, Words b) { return _mm512_unpackhi_epi16(a, b); }
  CPUACCEL_INLINE static Ints zip32_low(Ints a, Ints b) { return _mm512_unpacklo_epi32(a, b); }
  CPUACCEL_INLINE static Ints zip32_high(Ints a, Ints b) { return _mm512_unpackhi_epi32(a, b); }
  CPUACCEL_INLINE static Ints zip64_low(Ints a, Ints b) { return _mm512_unpacklo_epi64(a, b); }
  CPUACCEL_INLINE static Ints zip64_high(Ints a, Ints b) { return _mm512_unpackhi_epi64(a, b); }
  CPUACCEL_INLINE static Words widen_low8(Vector a) {
    return _mm512_unpacklo_epi8(a, _mm512_setzero_si512());
  }
  CPUACCEL_INLINE static Words widen_high8(Vector a) {
    return _mm512_unpackhi_epi8(a, _mm512_setzero_si512());
  }
  CPUACCEL_INLINE static Ints widen_low16(Words a) {
    return _mm512_unpacklo_epi16(a, _mm512_setzero_si512());
  }
  CPUACCEL_INLINE static Ints widen_high16(Words a) {
    return _mm512_unpackhi_epi16(a, _mm512_setzero_si512());
  }
  CPUACCEL_INLINE static Ints products_low16(Words a, Words b) {
    return _mm512_unpacklo_epi16(_mm512_mullo_epi16(a, b), _mm512_mulhi_epi16(a, b));
  }
  CPUACCEL_INLINE static Ints products_high16(Words a, Words b) {
    return _mm512_unpackhi_epi16(_mm512_mullo_epi16(a, b), _mm512_mulhi_epi16(a, b));
  }
  CPUACCEL_INLINE static Words pack32(Ints a, Ints b) { return _mm512_packs_epi32(a, b); }
  CPUACCEL_INLINE static Vector pack16(Words a, Words b) { return _mm512_packus_epi16(a, b); }

  CPUACCEL_INLINE static Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  CPUACCEL_INLINE static Ints rounded(Floats a) { return _mm512_cvtps_epi32(a); }
  CPUACCEL_INLINE static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  CPUACCEL_INLINE static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  CPUACCEL_INLINE static Floats fma(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
  }

  // The first `count` lanes, 0 to 63.
  CPUACCEL_INLINE static Mask mask(int64_t count) { return (uint64_t{1} << count) - 1; }
  CPUACCEL_INLINE static Vector load(const uint8_t* src, Mask m) {
    return _mm512_maskz_loadu_epi8(m, src);
  }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a, Mask m) {
    _mm512_mask_storeu_epi8(dst, m, a);
  }
};

struct MaskedBytes32 : Bytes32 {
  using Mask = __mmask32;
  using Bytes32::load;
  using Bytes32::store;

  // The first `count` lanes, 0 to 31.
  CPUACCEL_INLINE static Mask mask(int64_t count) { return (uint32_t{1} << count) - 1; }
  CPUACCEL_INLINE static Vector load(const uint8_t* src, Mask m) {
    return _mm256_maskz_loadu_epi8(m, src);
  }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a, Mask m) {
    _mm256_mask_storeu_epi8(dst, m, a);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
