// Packs lines side by side in runs of 4 bytes. Included by x86's sources only.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

// How a packed row holds its runs: as bytes, or as two pairs of 16 bits, those of the bytes 0 and 2
// and of the bytes 1 and 3.
struct ByteRuns {
  static constexpr int64_t kRunBytes = 4;
  // Runs of four lines.
  CPUACCEL_INLINE static void store(uint8_t* dst, __m128i runs) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), runs);
  }
  CPUACCEL_INLINE static void store1(uint8_t* dst, uint32_t run) {
    std::memcpy(dst, &run, sizeof(run));
  }
};

struct WordRuns {
  static constexpr int64_t kRunBytes = 8;
  CPUACCEL_INLINE static __m256i words_of(__m128i runs) {
    constexpr int kEvenThenOdd = 0xd8;
    const __m256i words = _mm256_cvtepi8_epi16(runs);
    return _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, kEvenThenOdd), kEvenThenOdd);
  }
  CPUACCEL_INLINE static void store(uint8_t* dst, __m128i runs) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), words_of(runs));
  }
  CPUACCEL_INLINE static void store1(uint8_t* dst, uint32_t run) {
    const __m128i one = _mm_cvtsi32_si128(static_cast<int>(run));
    const int64_t words = _mm_cvtsi128_si64(_mm256_castsi256_si128(words_of(one)));
    std::memcpy(dst, &words, sizeof(words));
  }
};

// First byte of a line; lines past the last one repeat it.
CPUACCEL_INLINE const uint8_t* line_at(const QgemmLines& lines, int64_t line) {
  return lines.src + (line < lines.count ? line : lines.count - 1) * lines.stride;
}

// `count` bytes, at most 16, flipped. Bytes behind them are multiplied by zeros.
CPUACCEL_INLINE __m128i line_bytes(const uint8_t* from, int64_t count, __m128i flip) {
  uint8_t bytes[16] = {};
  if (count >= 16) [[likely]] {
    return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), flip);
  }
  std::memcpy(bytes, from, static_cast<size_t>(count));
  return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)), flip);
}

// Weights past K are zeros: columns are never flipped.
template <typename Runs>
void lines_of_4(const QgemmLines& lines, int64_t width) {
  const __m128i flip = _mm_set1_epi8(static_cast<char>(lines.flip));
  const int64_t K = lines.K, row = Runs::kRunBytes * width;
  for (int64_t line = 0; line < width; line += 4) {
    const uint8_t *a = line_at(lines, line), *b = line_at(lines, line + 1),
                  *c = line_at(lines, line + 2), *d = line_at(lines, line + 3);
    auto* dst = reinterpret_cast<uint8_t*>(lines.dst) + Runs::kRunBytes * line;
    for (int64_t k = 0; k < K; k += 16, dst += 4 * row) {
      const int64_t left = K - k;
      const __m128i r0 = line_bytes(a + k, left, flip), r1 = line_bytes(b + k, left, flip),
                    r2 = line_bytes(c + k, left, flip), r3 = line_bytes(d + k, left, flip);
      const __m128i low01 = _mm_unpacklo_epi32(r0, r1), high01 = _mm_unpackhi_epi32(r0, r1);
      const __m128i low23 = _mm_unpacklo_epi32(r2, r3), high23 = _mm_unpackhi_epi32(r2, r3);
      Runs::store(dst, _mm_unpacklo_epi64(low01, low23));
      if (left > 4) {
        Runs::store(dst + row, _mm_unpackhi_epi64(low01, low23));
      }
      if (left > 8) {
        Runs::store(dst + 2 * row, _mm_unpacklo_epi64(high01, high23));
      }
      if (left > 12) {
        Runs::store(dst + 3 * row, _mm_unpackhi_epi64(high01, high23));
      }
    }
  }
}

// One or two lines.
template <typename Runs>
void few_lines(const QgemmLines& lines) {
  const uint32_t flip = lines.flip * 0x01010101u;
  for (int64_t line = 0; line < lines.count; ++line) {
    const uint8_t* src = line_at(lines, line);
    auto* dst = reinterpret_cast<uint8_t*>(lines.dst) + line * Runs::kRunBytes;
    for (int64_t k = 0; k < lines.K; k += 4, dst += Runs::kRunBytes * lines.count) {
      uint32_t run = 0;
      if (k + 4 <= lines.K) [[likely]] {
        std::memcpy(&run, src + k, sizeof(run));
      } else {
        std::memcpy(&run, src + k, static_cast<size_t>(lines.K - k));
      }
      Runs::store1(dst, run ^ flip);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
