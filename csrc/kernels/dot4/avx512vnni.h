// Dot products of four bytes by AVX512-VNNI (vpdpbusd). See avx2.h for the interface.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Avx512VnniDot4 {
  using Floats = ExpFloats16;
  using Int = __m512i;
  using Float = __m512;
  static constexpr int64_t kLanes = 16;
  static constexpr int64_t kBytes = 64;
  static constexpr int kParts = 1;
  static constexpr int kSourceOffset = 0;
  static constexpr int kPixels = 8;
  static constexpr int kPixelsOfHalf = 8;
  static constexpr int kWide = 2;
  static constexpr int kSteps = 1;
  static constexpr int kResults = 8;

  CPUACCEL_INLINE static Int zero() { return _mm512_setzero_si512(); }
  CPUACCEL_INLINE static Int set1(int32_t value) { return _mm512_set1_epi32(value); }
  CPUACCEL_INLINE static Int set1_u8(uint8_t value) {
    return _mm512_set1_epi8(static_cast<char>(value));
  }
  CPUACCEL_INLINE static Float set1(float value) { return _mm512_set1_ps(value); }
  CPUACCEL_INLINE static Int load(const void* from) { return _mm512_loadu_si512(from); }
  CPUACCEL_INLINE static void store(void* to, Int value) { _mm512_storeu_si512(to, value); }
  CPUACCEL_INLINE static Float load(const float* from) { return _mm512_loadu_ps(from); }
  CPUACCEL_INLINE static Int multiply(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
  CPUACCEL_INLINE static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  CPUACCEL_INLINE static Int broadcast4(const uint8_t* from) {
    int32_t bytes = 0;
    std::memcpy(&bytes, from, sizeof(bytes));
    return _mm512_set1_epi32(bytes);
  }
  CPUACCEL_INLINE static Int broadcast16(const uint8_t* from) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  CPUACCEL_INLINE static Int pick_dwords(Int values, Int picks) {
    return _mm512_castps_si512(_mm512_permutevar_ps(_mm512_castsi512_ps(values), picks));
  }
  CPUACCEL_INLINE static Float load_floats(const float* from, int64_t count) {
    return _mm512_maskz_loadu_ps(first(count), from);
  }
  CPUACCEL_INLINE static Int shift_in_byte(Int value, Int before) {
    return _mm512_or_si512(_mm512_slli_epi32(value, 8), _mm512_srli_epi32(before, 24));
  }

  CPUACCEL_INLINE static Int load_bytes(const uint8_t* from, int64_t count,
                                        const uint8_t* /*end*/) {
    if (count >= kBytes) {
      return load(from);
    }
    return _mm512_maskz_loadu_epi8((uint64_t{1} << count) - 1, from);
  }

  CPUACCEL_INLINE static Int spread(Int row) {
    const Int order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, row);
  }
  CPUACCEL_INLINE static void interleave4(Int r0, Int r1, Int r2, Int r3, Int out[4]) {
    const Int low01 = _mm512_unpacklo_epi8(r0, r1);
    const Int high01 = _mm512_unpackhi_epi8(r0, r1);
    const Int low23 = _mm512_unpacklo_epi8(r2, r3);
    const Int high23 = _mm512_unpackhi_epi8(r2, r3);
    out[0] = _mm512_unpacklo_epi16(low01, low23);
    out[1] = _mm512_unpackhi_epi16(low01, low23);
    out[2] = _mm512_unpacklo_epi16(high01, high23);
    out[3] = _mm512_unpackhi_epi16(high01, high23);
  }

  CPUACCEL_INLINE static void expand(Int bytes, Int parts[kParts]) { parts[0] = bytes; }
  CPUACCEL_INLINE static void expand_weights(Int bytes, Int parts[kParts]) { parts[0] = bytes; }
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    return _mm512_dpbusd_epi32(acc, taps, weights);
  }

  // The same in place. With the intrinsic GCC 12 keeps two copies of each of many sums, one of them
  // in memory.
  CPUACCEL_INLINE static void accumulate(Int& sum, Int taps, Int weights) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(taps), "v"(weights));
  }

  struct Quantizer {
    Int zero_point, low, high, flip;
    Quantizer(int32_t dst_zero_point, uint8_t dst_min, uint8_t dst_max, uint8_t dst_flip)
        : zero_point(_mm512_set1_epi16(static_cast<int16_t>(dst_zero_point))),
          low(set1_u8(dst_min)),
          high(set1_u8(dst_max)),
          flip(set1_u8(dst_flip)) {}
  };
  CPUACCEL_INLINE static Float to_real(Int acc, Float scale, Float bias) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), scale, bias);
  }
  CPUACCEL_INLINE static Int quantize4(const Float real[4], const Quantizer& q) {
    Int rounded[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rounded[i] = _mm512_cvtps_epi32(real[i]);
    }
    return _mm512_xor_si512(bytes_of<4, true>(rounded, q), q.flip);
  }
  // Packs the integers of up to four vectors to bytes, each vector in its own 16 bytes, clamped to
  // low .. high if kLimited. Bytes behind the last vector are undefined.
  template <int kVectors, bool kLimited>
  CPUACCEL_INLINE static Int bytes_of(const Int* rounded, const Quantizer& q) {
    constexpr int kSecond = kVectors > 1 ? 1 : 0, kFourth = kVectors > 3 ? 3 : 0;
    const Int a = _mm512_adds_epi16(_mm512_packs_epi32(rounded[0], rounded[kSecond]), q.zero_point);
    Int b = a;
    if constexpr (kVectors > 2) {
      b = _mm512_adds_epi16(_mm512_packs_epi32(rounded[2], rounded[kFourth]), q.zero_point);
    }
    Int bytes = _mm512_packus_epi16(a, b);
    if constexpr (kLimited) {
      bytes = _mm512_min_epu8(_mm512_max_epu8(bytes, q.low), q.high);
    }
    return spread(bytes);
  }
  CPUACCEL_INLINE static void store_halves(uint8_t* first, uint8_t* second, Int bytes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(first), _mm512_castsi512_si256(bytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(second), _mm512_extracti64x4_epi64(bytes, 1));
  }
  CPUACCEL_INLINE static void store4(uint8_t* const to[4], Int bytes, const int64_t counts[4]) {
    _mm_mask_storeu_epi8(to[0], first(counts[0]), _mm512_castsi512_si128(bytes));
    _mm_mask_storeu_epi8(to[1], first(counts[1]), _mm512_extracti32x4_epi32(bytes, 1));
    _mm_mask_storeu_epi8(to[2], first(counts[2]), _mm512_extracti32x4_epi32(bytes, 2));
    _mm_mask_storeu_epi8(to[3], first(counts[3]), _mm512_extracti32x4_epi32(bytes, 3));
  }
  CPUACCEL_INLINE static void store_floats(float* to, Float value, int64_t count) {
    _mm512_mask_storeu_ps(to, first(count), value);
  }

 private:
  CPUACCEL_INLINE static __mmask16 first(int64_t count) {
    return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1u << count) - 1u);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
