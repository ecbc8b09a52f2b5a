// AVX2 vector classes of bytes: 32, and 16 and 8 for tails, which lack what no tail needs. Included
// with AVX2's flags only.
//
// Operations, here and in the other files of this folder:
//
// Types: Vector has bytes, Words 16-bit, Ints 32-bit integers, Floats 32-bit floats; all have the
// same size. A number in a name is the width in bits. Low and high are halves of each 128 bits, so
// that packing undoes widening.
//
//   load, store; with AVX-512 and SVE also with a mask
//   set8, set16, set32, set_float: the same number in each lane; zero16
//   bits_xor, max8, min8 (unsigned), subtract8_saturating (signed)
//   repeat16: 16 bytes in each 128 bits; shuffle8: bytes by their index, 0 if it is negative
//   add16, add16_saturating (signed), subtract16, multiply16, multiply_high16 (unsigned),
//   shift_right16, equal16, bits_and16, add32
//   even8, odd8, even16, odd16: the even or odd lanes, widened with zeros; join8 undoes even8, odd8
//   widen_low8, widen_high8, widen_low16, widen_high16: half of the lanes, widened with zeros
//   zip16, zip32, zip64: the low or high halves of two vectors, interleaved
//   products_low16, products_high16: 32-bit products of half of the lanes (signed)
//   pack32, pack16: both vectors narrowed, signed to signed and signed to unsigned, saturating
//   to_floats, rounded (to nearest even), add, multiply, fma
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Bytes32 {
  using Vector = __m256i;
  using Words = Vector;
  using Ints = Vector;
  using Floats = __m256;
  static constexpr int64_t kBytes = 32;

  CPUACCEL_INLINE static Vector load(const uint8_t* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), a);
  }
  CPUACCEL_INLINE static Words zero16() { return _mm256_setzero_si256(); }
  CPUACCEL_INLINE static Vector set8(int a) { return _mm256_set1_epi8(static_cast<int8_t>(a)); }
  CPUACCEL_INLINE static Words set16(int a) { return _mm256_set1_epi16(static_cast<int16_t>(a)); }
  CPUACCEL_INLINE static Ints set32(int32_t a) { return _mm256_set1_epi32(a); }
  CPUACCEL_INLINE static Floats set_float(float a) { return _mm256_set1_ps(a); }

  CPUACCEL_INLINE static Words bits_and16(Words a, Words b) { return _mm256_and_si256(a, b); }
  CPUACCEL_INLINE static Vector bits_xor(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
  CPUACCEL_INLINE static Vector max8(Vector a, Vector b) { return _mm256_max_epu8(a, b); }
  CPUACCEL_INLINE static Vector min8(Vector a, Vector b) { return _mm256_min_epu8(a, b); }
  CPUACCEL_INLINE static Vector subtract8_saturating(Vector a, Vector b) {
    return _mm256_subs_epi8(a, b);
  }
  CPUACCEL_INLINE static Vector repeat16(const uint8_t* src) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
  }
  CPUACCEL_INLINE static Vector shuffle8(Vector bytes, Vector index) {
    return _mm256_shuffle_epi8(bytes, index);
  }

  CPUACCEL_INLINE static Words add16(Words a, Words b) { return _mm256_add_epi16(a, b); }
  CPUACCEL_INLINE static Words add16_saturating(Words a, Words b) {
    return _mm256_adds_epi16(a, b);
  }
  CPUACCEL_INLINE static Words subtract16(Words a, Words b) { return _mm256_sub_epi16(a, b); }
  CPUACCEL_INLINE static Words multiply16(Words a, Words b) { return _mm256_mullo_epi16(a, b); }
  CPUACCEL_INLINE static Words multiply_high16(Words a, Words b) {
    return _mm256_mulhi_epu16(a, b);
  }
  CPUACCEL_INLINE static Words shift_right16(Words a, int bits) {
    return _mm256_srl_epi16(a, _mm_cvtsi32_si128(bits));
  }
  CPUACCEL_INLINE static Words equal16(Words a, Words b) { return _mm256_cmpeq_epi16(a, b); }
  CPUACCEL_INLINE static Ints add32(Ints a, Ints b) { return _mm256_add_epi32(a, b); }

  CPUACCEL_INLINE static Words even8(Vector a) {
    return _mm256_and_si256(a, _mm256_set1_epi16(0xff));
  }
  CPUACCEL_INLINE static Words odd8(Vector a) { return _mm256_srli_epi16(a, 8); }
  CPUACCEL_INLINE static Ints even16(Words a) {
    return _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
  }
  CPUACCEL_INLINE static Ints odd16(Words a) { return _mm256_srli_epi32(a, 16); }
  CPUACCEL_INLINE static Vector join8(Words even, Words odd) {
    return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
  }
  CPUACCEL_INLINE static Words zip16_low(Words a, Words b) { return _mm256_unpacklo_epi16(a, b); }
  CPUACCEL_INLINE static Words zip16_high(Words a, Words b) { return _mm256_unpackhi_epi16(a, b); }
  CPUACCEL_INLINE static Ints zip32_low(Ints a, Ints b) { return _mm256_unpacklo_epi32(a, b); }
  CPUACCEL_INLINE static Ints zip32_high(Ints a, Ints b) { return _mm256_unpackhi_epi32(a, b); }
  CPUACCEL_INLINE static Ints zip64_low(Ints a, Ints b) { return _mm256_unpacklo_epi64(a, b); }
  CPUACCEL_INLINE static Ints zip64_high(Ints a, Ints b) { return _mm256_unpackhi_epi64(a, b); }
  CPUACCEL_INLINE static Words widen_low8(Vector a) {
    return _mm256_unpacklo_epi8(a, _mm256_setzero_si256());
  }
  CPUACCEL_INLINE static Words widen_high8(Vector a) {
    return _mm256_unpackhi_epi8(a, _mm256_setzero_si256());
  }
  CPUACCEL_INLINE static Ints widen_low16(Words a) {
    return _mm256_unpacklo_epi16(a, _mm256_setzero_si256());
  }
  CPUACCEL_INLINE static Ints widen_high16(Words a) {
    return _mm256_unpackhi_epi16(a, _mm256_setzero_si256());
  }
  CPUACCEL_INLINE static Ints products_low16(Words a, Words b) {
    return _mm256_unpacklo_epi16(_mm256_mullo_epi16(a, b), _mm256_mulhi_epi16(a, b));
  }
  CPUACCEL_INLINE static Ints products_high16(Words a, Words b) {
    return _mm256_unpackhi_epi16(_mm256_mullo_epi16(a, b), _mm256_mulhi_epi16(a, b));
  }
  CPUACCEL_INLINE static Words pack32(Ints a, Ints b) { return _mm256_packs_epi32(a, b); }
  CPUACCEL_INLINE static Vector pack16(Words a, Words b) { return _mm256_packus_epi16(a, b); }

  CPUACCEL_INLINE static Floats to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
  CPUACCEL_INLINE static Ints rounded(Floats a) { return _mm256_cvtps_epi32(a); }
  CPUACCEL_INLINE static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  CPUACCEL_INLINE static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  CPUACCEL_INLINE static Floats fma(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
  }
};

struct Bytes16 {
  using Vector = __m128i;
  using Words = Vector;
  using Ints = Vector;
  using Floats = __m128;
  static constexpr int64_t kBytes = 16;

  CPUACCEL_INLINE static Vector load(const uint8_t* src) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
  }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), a);
  }
  CPUACCEL_INLINE static Words zero16() { return _mm_setzero_si128(); }
  CPUACCEL_INLINE static Words set16(int a) { return _mm_set1_epi16(static_cast<int16_t>(a)); }
  CPUACCEL_INLINE static Ints set32(int32_t a) { return _mm_set1_epi32(a); }
  CPUACCEL_INLINE static Floats set_float(float a) { return _mm_set1_ps(a); }

  CPUACCEL_INLINE static Words bits_and16(Words a, Words b) { return _mm_and_si128(a, b); }
  CPUACCEL_INLINE static Vector max8(Vector a, Vector b) { return _mm_max_epu8(a, b); }

  CPUACCEL_INLINE static Words add16(Words a, Words b) { return _mm_add_epi16(a, b); }
  CPUACCEL_INLINE static Words add16_saturating(Words a, Words b) { return _mm_adds_epi16(a, b); }
  CPUACCEL_INLINE static Words subtract16(Words a, Words b) { return _mm_sub_epi16(a, b); }
  CPUACCEL_INLINE static Words multiply16(Words a, Words b) { return _mm_mullo_epi16(a, b); }
  CPUACCEL_INLINE static Words multiply_high16(Words a, Words b) { return _mm_mulhi_epu16(a, b); }
  CPUACCEL_INLINE static Words shift_right16(Words a, int bits) {
    return _mm_srl_epi16(a, _mm_cvtsi32_si128(bits));
  }
  CPUACCEL_INLINE static Words equal16(Words a, Words b) { return _mm_cmpeq_epi16(a, b); }
  CPUACCEL_INLINE static Ints add32(Ints a, Ints b) { return _mm_add_epi32(a, b); }

  CPUACCEL_INLINE static Words even8(Vector a) { return _mm_and_si128(a, _mm_set1_epi16(0xff)); }
  CPUACCEL_INLINE static Words odd8(Vector a) { return _mm_srli_epi16(a, 8); }
  CPUACCEL_INLINE static Ints even16(Words a) { return _mm_and_si128(a, _mm_set1_epi32(0xffff)); }
  CPUACCEL_INLINE static Ints odd16(Words a) { return _mm_srli_epi32(a, 16); }
  CPUACCEL_INLINE static Vector join8(Words even, Words odd) {
    return _mm_or_si128(even, _mm_slli_epi16(odd, 8));
  }
  CPUACCEL_INLINE static Words zip16_low(Words a, Words b) { return _mm_unpacklo_epi16(a, b); }
  CPUACCEL_INLINE static Words zip16_high(Words a, Words b) { return _mm_unpackhi_epi16(a, b); }
  CPUACCEL_INLINE static Ints zip32_low(Ints a, Ints b) { return _mm_unpacklo_epi32(a, b); }
  CPUACCEL_INLINE static Ints zip32_high(Ints a, Ints b) { return _mm_unpackhi_epi32(a, b); }
  CPUACCEL_INLINE static Ints zip64_low(Ints a, Ints b) { return _mm_unpacklo_epi64(a, b); }
  CPUACCEL_INLINE static Ints zip64_high(Ints a, Ints b) { return _mm_unpackhi_epi64(a, b); }
  CPUACCEL_INLINE static Ints widen_low16(Words a) {
    return _mm_unpacklo_epi16(a, _mm_setzero_si128());
  }
  CPUACCEL_INLINE static Ints widen_high16(Words a) {
    return _mm_unpackhi_epi16(a, _mm_setzero_si128());
  }
  CPUACCEL_INLINE static Words pack32(Ints a, Ints b) { return _mm_packs_epi32(a, b); }
  CPUACCEL_INLINE static Vector pack16(Words a, Words b) { return _mm_packus_epi16(a, b); }

  CPUACCEL_INLINE static Floats to_floats(Ints a) { return _mm_cvtepi32_ps(a); }
  CPUACCEL_INLINE static Ints rounded(Floats a) { return _mm_cvtps_epi32(a); }
  CPUACCEL_INLINE static Floats multiply(Floats a, Floats b) { return _mm_mul_ps(a, b); }
  CPUACCEL_INLINE static Floats fma(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }
};

// The low half of a vector.
struct Bytes8 : Bytes16 {
  static constexpr int64_t kBytes = 8;
  CPUACCEL_INLINE static Vector load(const uint8_t* src) { return _mm_loadu_si64(src); }
  CPUACCEL_INLINE static void store(uint8_t* dst, Vector a) { _mm_storeu_si64(dst, a); }
};

}  // namespace
}  // namespace cpuaccel::kernels
