// Packs pairs of bf16 from rows and columns of f32 or bf16, on AVX512-BF16. Zeros pad each row or
// column to a multiple of kTogether pairs, 1 or a vector. Included by ISA sources only.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/half.h"
#include "kernels/gemm/kernels.h"
#include "kernels/inline.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kPairs = 16;  // pairs in a vector

CPUACCEL_INLINE __mmask16 first_lanes(int64_t count) {
  return count >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << count) - 1);
}

// [x0 .. x15, y0 .. y15] to [x0 y0, x1 y1 ..].
CPUACCEL_INLINE __m512i interleaved(__m512i halves) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(halves));
  const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(halves, 1));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

struct PairsOfF32 {
  using Element = float;
  // The first `count` elements from src on, at most 32, followed by zeros.
  CPUACCEL_INLINE static __m512i along(const float* src, int64_t count) {
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(count), src);
    const __m512 high =
        count > 16 ? _mm512_maskz_loadu_ps(first_lanes(count - 16), src + 16) : _mm512_setzero_ps();
    return bits(_mm512_cvtne2ps_pbh(high, low));
  }
  // Pairs of an element of one row and one of the next, for `count` columns, at most 16. `next` may
  // be null: zeros.
  CPUACCEL_INLINE static __m512i across(const float* row, const float* next, int64_t count) {
    const __mmask16 mask = first_lanes(count);
    const __m512 low = _mm512_maskz_loadu_ps(mask, row);
    const __m512 high = next != nullptr ? _mm512_maskz_loadu_ps(mask, next) : _mm512_setzero_ps();
    return interleaved(bits(_mm512_cvtne2ps_pbh(high, low)));
  }

 private:
  CPUACCEL_INLINE static __m512i bits(__m512bh x) { return reinterpret_cast<__m512i>(x); }
};

struct PairsOfBf16 {
  using Element = uint16_t;
  CPUACCEL_INLINE static __m512i along(const uint16_t* src, int64_t count) {
    const uint32_t mask = count >= 32 ? ~0u : (1u << count) - 1;
    return _mm512_maskz_loadu_epi16(mask, src);
  }
  CPUACCEL_INLINE static __m512i across(const uint16_t* row, const uint16_t* next, int64_t count) {
    const __mmask16 mask = first_lanes(count);
    const __m256i low = _mm256_maskz_loadu_epi16(mask, row);
    const __m256i high =
        next != nullptr ? _mm256_maskz_loadu_epi16(mask, next) : _mm256_setzero_si256();
    return interleaved(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }
};

// Transposes sixteen vectors of sixteen pairs.
CPUACCEL_INLINE void transpose(__m512i (&v)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // Quarter q of v[4i + c] is column 4q + c of rows 4i to 4i + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i even_low = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x88);
    const __m512i even_high = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xdd);
    t[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    t[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    t[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    v[i] = t[i];
  }
}

// Transposes up to 16 lines of `depth` elements, `line_stride` apart, whose pairs lie along them:
//   dst[p * pair_stride + line] = pair p of the line
// for all 16 lines; missing lines are zeros.
template <typename S>
CPUACCEL_INLINE void turn_lines(const typename S::Element* src, int64_t lines, int64_t line_stride,
                                int64_t depth, float* dst, int64_t pair_stride) {
  for (int64_t k = 0; k < depth; k += 2 * kPairs) {
    const int64_t count = depth - k;
    __m512i v[16];
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) {
      const auto* line = src + i * line_stride + k;
      if (i < lines) {
        v[i] = S::along(line, count);
      } else {
        v[i] = _mm512_setzero_si512();
      }
    }
    transpose(v);
    const int64_t pairs = count >= 2 * kPairs ? kPairs : (count + 1) / 2;
    for (int64_t p = 0; p < pairs; ++p) {
      _mm512_storeu_si512(dst + (k / 2 + p) * pair_stride, v[p]);
    }
  }
}

// A pair of elements at any stride; `single`: its second half is zero.
template <typename S>
CPUACCEL_INLINE float pair_at(const LoadCall& call, int64_t first, int64_t stride, bool single) {
  const auto* src = static_cast<const typename S::Element*>(call.src) + first;
  const auto half = [&](int64_t index) -> uint32_t {
    return float_to_bf16(element_to_float(src, call.type, index));
  };
  return bits_to_float(half(0) | (single ? 0 : half(stride) << 16));
}

// The lanes that a vector of pairs writes for `depth` elements, at least 1.
template <int64_t kTogether>
CPUACCEL_INLINE __mmask16 written_lanes(int64_t depth) {
  static_assert(kTogether == 1 || kTogether == kPairs);
  return kTogether == kPairs ? __mmask16{0xffff} : first_lanes((depth + 1) / 2);
}

template <typename S, int64_t kTogether>
void rows_of(const LoadCall& call) {
  const auto* src = static_cast<const typename S::Element*>(call.src);
  if (call.column_stride == 1) {
    for (int64_t i = 0; i < call.rows; ++i) {
      for (int64_t k = 0; k < call.columns; k += 2 * kPairs) {
        const int64_t count = call.columns - k;
        _mm512_mask_storeu_epi32(call.dst + i * call.stride + k / 2,
                                 written_lanes<kTogether>(count),
                                 S::along(src + i * call.row_stride + k, count));
      }
    }
    return;
  }
  if (call.row_stride == 1) {
    for (int64_t i = 0; i < call.rows; i += 16) {
      const int64_t count = call.rows - i < 16 ? call.rows - i : 16;
      for (int64_t k = 0; k < call.columns; k += 2 * kPairs) {
        const int64_t depth = call.columns - k < 2 * kPairs ? call.columns - k : 2 * kPairs;
        __m512i v[16];
        for (int64_t p = 0; p < 16; ++p) {
          const auto* at = src + i + (k + 2 * p) * call.column_stride;
          v[p] = 2 * p < depth
                     ? S::across(at, 2 * p + 1 < depth ? at + call.column_stride : nullptr, count)
                     : _mm512_setzero_si512();
        }
        transpose(v);
        const __mmask16 mask = written_lanes<kTogether>(depth);
        for (int64_t r = 0; r < count; ++r) {
          _mm512_mask_storeu_epi32(call.dst + (i + r) * call.stride + k / 2, mask, v[r]);
        }
      }
    }
    return;
  }
  for (int64_t i = 0; i < call.rows; ++i) {
    for (int64_t k = 0; k < call.columns; k += 2) {
      call.dst[i * call.stride + k / 2] =
          pair_at<S>(call, i * call.row_stride + k * call.column_stride, call.column_stride,
                     k + 1 == call.columns);
    }
    const int64_t pairs = (call.columns + 1) / 2;
    std::fill_n(call.dst + i * call.stride + pairs, round_up(pairs, kTogether) - pairs, 0.0f);
  }
}

template <typename S, int64_t kTogether>
void panels_of(const LoadCall& call, int64_t nr) {
  const auto* src = static_cast<const typename S::Element*>(call.src);
  const int64_t filled = (call.rows + 1) / 2, pairs = round_up(filled, kTogether);
  for (int64_t n = 0; n < call.columns; n += 16) {
    float* dst = call.dst + n / nr * nr * pairs + n % nr;
    const int64_t count = call.columns - n < 16 ? call.columns - n : 16;
    if (call.row_stride == 1) {
      turn_lines<S>(src + n * call.column_stride, count, call.column_stride, call.rows, dst, nr);
    } else if (call.column_stride == 1) {
      for (int64_t p = 0; p < filled; ++p) {
        const auto* row = src + 2 * p * call.row_stride + n;
        const auto* next = 2 * p + 1 < call.rows ? row + call.row_stride : nullptr;
        _mm512_storeu_si512(dst + p * nr, S::across(row, next, count));
      }
    } else {
      for (int64_t p = 0; p < filled; ++p) {
        for (int64_t j = 0; j < 16; ++j) {
          dst[p * nr + j] =
              j < count ? pair_at<S>(call, 2 * p * call.row_stride + (n + j) * call.column_stride,
                                     call.row_stride, 2 * p + 1 == call.rows)
                        : 0.0f;
        }
      }
    }
    for (int64_t p = filled; p < pairs; ++p) {
      _mm512_storeu_si512(dst + p * nr, _mm512_setzero_si512());
    }
  }
  // Panels are nr columns wide, and the last one may use less than half of them.
  if (const int64_t done = (call.columns + 15) / 16 * 16; done % nr != 0) {
    float* dst = call.dst + done / nr * nr * pairs + done % nr;
    for (int64_t p = 0; p < pairs; ++p) {
      _mm512_storeu_si512(dst + p * nr, _mm512_setzero_si512());
    }
  }
}

template <int64_t kTogether>
void pair_rows(const LoadCall& call) {
  call.type == DataType::f32 ? rows_of<PairsOfF32, kTogether>(call)
                             : rows_of<PairsOfBf16, kTogether>(call);
}

template <int64_t kTogether>
void pair_panels(const LoadCall& call, int64_t nr) {
  call.type == DataType::f32 ? panels_of<PairsOfF32, kTogether>(call, nr)
                             : panels_of<PairsOfBf16, kTogether>(call, nr);
}

}  // namespace
}  // namespace cpuaccel::kernels
