// Exact dot products of four bytes (u8 x s8) on AVX2. Products and pair sums are 16 x 16 bits into
// 32 (vpmaddwd), because vpmaddubsw would saturate its 16-bit sums. Two parts stand for four bytes:
// those at even positions and those at odd ones, each widened to 16 bits.
//
// What the ISA headers of dot4 offer, with kLanes int32 in a vector:
//   spread, interleave4   four rows of 4 * kLanes bytes -> 4 vectors; a lane has a byte of each row
//   expand, expand_weights, dot   acc[lane] += sum of 4 (u8 x s8), over all kParts parts
//   kSourceOffset         what expand subtracts from source bytes (0, or 128 to make them s8)
//   kSteps, load_steps, dot_step<i>   if kSteps > 1: loads the source bytes of kSteps steps at once
//   to_real, quantize4     int32 -> float -> u8, four vectors
//   store4, store_halves   store the quarters, truncated, or the halves of a vector
// Included by one ISA's sources only, so everything is in an unnamed namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Avx2 {
  using Floats = ExpFloats8;
  using Int = __m256i;
  using Float = __m256;
  static constexpr int64_t kLanes = 8;
  static constexpr int64_t kBytes = 32;
  static constexpr int kSourceOffset = 0;
  // The tile of qconv, sized to fit the registers: pixels, and vectors of channels.
  static constexpr int kPixels = 4;
  static constexpr int kPixelsOfHalf = 4;  // with half of the vectors
  static constexpr int kWide = 2;
  static constexpr int kSteps = 1;
  static constexpr int kResults = 8;  // per vector of channels, that dwconv holds in registers

  CPUACCEL_INLINE static Int zero() { return _mm256_setzero_si256(); }
  CPUACCEL_INLINE static Int set1(int32_t value) { return _mm256_set1_epi32(value); }
  CPUACCEL_INLINE static Int set1_u8(uint8_t value) {
    return _mm256_set1_epi8(static_cast<char>(value));
  }
  CPUACCEL_INLINE static Float set1(float value) { return _mm256_set1_ps(value); }
  CPUACCEL_INLINE static Int load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  CPUACCEL_INLINE static void store(void* to, Int value) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), value);
  }
  CPUACCEL_INLINE static Float load(const float* from) { return _mm256_loadu_ps(from); }
  CPUACCEL_INLINE static Int multiply(Int a, Int b) { return _mm256_mullo_epi32(a, b); }
  CPUACCEL_INLINE static Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  // broadcast4: four bytes in every lane. broadcast16: 16 bytes in every 128 bits. pick_dwords:
  // each lane picks a dword of its 16 bytes.
  CPUACCEL_INLINE static Int broadcast4(const uint8_t* from) {
    int32_t bytes = 0;
    std::memcpy(&bytes, from, sizeof(bytes));
    return _mm256_set1_epi32(bytes);
  }
  CPUACCEL_INLINE static Int broadcast16(const uint8_t* from) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  CPUACCEL_INLINE static Int pick_dwords(Int values, Int picks) {
    return _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(values), picks));
  }
  // The values of lanes in which a and b are equal, 0 in the other lanes.
  CPUACCEL_INLINE static Int where_equal(Int a, Int b, Int values) {
    return _mm256_and_si256(_mm256_cmpeq_epi32(a, b), values);
  }
  // The first `count` floats, 0 in the other lanes.
  CPUACCEL_INLINE static Float load_floats(const float* from, int64_t count) {
    if (count >= kLanes) [[likely]] {
      return _mm256_loadu_ps(from);
    }
    alignas(kBytes) float block[kLanes] = {};
    std::memcpy(block, from, static_cast<size_t>(count) * sizeof(float));
    return _mm256_load_ps(block);
  }
  // Shifts each dword up by a byte and fills its lowest byte with the highest of `before`.
  CPUACCEL_INLINE static Int shift_in_byte(Int value, Int before) {
    return _mm256_or_si256(_mm256_slli_epi32(value, 8), _mm256_srli_epi32(before, 24));
  }

  // Loads kBytes bytes, of which only the first `count` are used. Reads nothing past `end`.
  CPUACCEL_INLINE static Int load_bytes(const uint8_t* from, int64_t count, const uint8_t* end) {
    if (end - from >= kBytes) {
      return load(from);
    }
    alignas(kBytes) uint8_t block[kBytes] = {};
    std::memcpy(block, from, static_cast<size_t>(count < kBytes ? count : kBytes));
    return load(block);
  }

  // Orders the dwords for interleave4, whose unpacks work on 128-bit halves.
  CPUACCEL_INLINE static Int spread(Int row) {
    return _mm256_permutevar8x32_epi32(row, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
  }
  CPUACCEL_INLINE static void interleave4(Int r0, Int r1, Int r2, Int r3, Int out[4]) {
    const Int low01 = _mm256_unpacklo_epi8(r0, r1);
    const Int high01 = _mm256_unpackhi_epi8(r0, r1);
    const Int low23 = _mm256_unpacklo_epi8(r2, r3);
    const Int high23 = _mm256_unpackhi_epi8(r2, r3);
    out[0] = _mm256_unpacklo_epi16(low01, low23);
    out[1] = _mm256_unpackhi_epi16(low01, low23);
    out[2] = _mm256_unpacklo_epi16(high01, high23);
    out[3] = _mm256_unpackhi_epi16(high01, high23);
  }

  // Requantizes four vectors of float results of kLanes channels to bytes: round, add the zero
  // point, clamp. Result i is in the i-th quarter.
  struct Quantizer {
    Int zero_point, low, high, flip;
    Quantizer(int32_t dst_zero_point, uint8_t dst_min, uint8_t dst_max, uint8_t dst_flip)
        : zero_point(_mm256_set1_epi16(static_cast<int16_t>(dst_zero_point))),
          low(set1_u8(dst_min)),
          high(set1_u8(dst_max)),
          flip(set1_u8(dst_flip)) {}
  };
  CPUACCEL_INLINE static Float to_real(Int acc, Float scale, Float bias) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc), scale, bias);
  }
  CPUACCEL_INLINE static Int quantize4(const Float real[4], const Quantizer& q) {
    Int rounded[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rounded[i] = _mm256_cvtps_epi32(real[i]);
    }
    const Int a = _mm256_adds_epi16(_mm256_packs_epi32(rounded[0], rounded[1]), q.zero_point);
    const Int b = _mm256_adds_epi16(_mm256_packs_epi32(rounded[2], rounded[3]), q.zero_point);
    Int bytes = _mm256_packus_epi16(a, b);
    bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, q.low), q.high);
    bytes = _mm256_xor_si256(bytes, q.flip);
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  CPUACCEL_INLINE static void store_halves(uint8_t* first, uint8_t* second, Int bytes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(first), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(second), _mm256_extracti128_si256(bytes, 1));
  }
  // Stores the first counts[i] bytes of quarter i at to[i].
  CPUACCEL_INLINE static void store4(uint8_t* const to[4], Int bytes, const int64_t counts[4]) {
    if (counts[0] >= kLanes && counts[1] >= kLanes && counts[2] >= kLanes && counts[3] >= kLanes)
        [[likely]] {
      const int64_t quarters[4] = {_mm256_extract_epi64(bytes, 0), _mm256_extract_epi64(bytes, 1),
                                   _mm256_extract_epi64(bytes, 2), _mm256_extract_epi64(bytes, 3)};
      for (int i = 0; i < 4; ++i) {
        std::memcpy(to[i], &quarters[i], sizeof(quarters[i]));
      }
      return;
    }
    alignas(kBytes) uint8_t block[kBytes];
    store(block, bytes);
    for (int i = 0; i < 4; ++i) {
      std::memcpy(to[i], block + i * kLanes, static_cast<size_t>(counts[i]));
    }
  }
  CPUACCEL_INLINE static void store_floats(float* to, Float value, int64_t count) {
    if (count >= kLanes) {
      _mm256_storeu_ps(to, value);
      return;
    }
    alignas(kBytes) float block[kLanes];
    _mm256_store_ps(block, value);
    std::memcpy(to, block, static_cast<size_t>(count) * sizeof(float));
  }
};

// acc plus the two 16-bit sums of each lane.
CPUACCEL_INLINE __m256i add_widened(__m256i acc, __m256i sums) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
}

// Dot products without widening the bytes first, if no sum of two products exceeds 16 bits.
CPUACCEL_INLINE __m256i dot_bytes(__m256i acc, __m256i taps, __m256i weights) {
  return add_widened(acc, _mm256_maddubs_epi16(taps, weights));
}

struct Avx2Dot4 : Avx2 {
  static constexpr int kParts = 2;
  CPUACCEL_INLINE static void expand(Int bytes, Int parts[kParts]) {
    parts[0] = _mm256_and_si256(bytes, _mm256_set1_epi16(0x00ff));
    parts[1] = _mm256_srli_epi16(bytes, 8);
  }
  CPUACCEL_INLINE static void expand_weights(Int bytes, Int parts[kParts]) {
    parts[0] = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    parts[1] = _mm256_srai_epi16(bytes, 8);
  }
  // Adds the products of one part.
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(taps, weights));
    // Keeps the sums in this order: GCC would compute all products first, which takes more
    // registers than there are.
    asm volatile("" : "+x"(acc));
    return acc;
  }
};

// For weights of qconv's form `matched`, if source bytes may exceed 127.
struct Avx2Dot4Matched : Avx2Dot4 {
  static constexpr bool kMatched = true;
};

// For instructions that multiply bytes without widening: one part, all four bytes.
struct Avx2Bytes : Avx2 {
  static constexpr int kParts = 1;
  CPUACCEL_INLINE static void expand(Int bytes, Int parts[kParts]) { parts[0] = bytes; }
  CPUACCEL_INLINE static void expand_weights(Int bytes, Int parts[kParts]) { parts[0] = bytes; }
};

// Used if no sum of two products exceeds 16 bits.
struct Avx2Short : Avx2Bytes {
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    return dot_bytes(acc, taps, weights);
  }
};

// For weights of qconv's form `pairs`: two neighbors of the same sign add up to 128 at most, and
// 255 * 128 fits 16 bits.
struct Avx2Pairs : Avx2Short {
  static constexpr bool kHasRest = true;
};

// For source bytes cut off at 127, and for what was cut off, at most 128: 2 * 128 * 127 fits 16
// bits.
struct Avx2Low : Avx2Short {
  static constexpr bool kHasExcess = true;
};

// The same if the products of several steps fit 16 bits as one sum, which is widened once.
struct Avx2LowSteps : Avx2Low {
  static constexpr bool kAddsSteps = true;
  template <int kCount>
  CPUACCEL_INLINE static Int dot_together(Int acc, const Int* taps, const Int* weights) {
    Int sums = _mm256_maddubs_epi16(taps[0], weights[0]);
#pragma GCC unroll 4
    for (int i = 1; i < kCount; ++i) {
      sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(taps[i], weights[i]));
      asm volatile("" : "+x"(sums));  // as in Avx2Dot4
    }
    return add_widened(acc, sums);
  }
};

// For weights of qconv's form `pairs`, of which any two steps fit.
struct Avx2LowPairs : Avx2LowSteps {
  static constexpr bool kHasRest = true;
};

// For weights of qconv's form `matched`, of which the steps of a pair and of a four fit.
struct Avx2LowMatched : Avx2LowSteps {
  static constexpr bool kMatched = true;
};

}  // namespace
}  // namespace cpuaccel::kernels
