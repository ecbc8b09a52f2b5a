// Channel order of dwconv on AVX512-VNNI: that in which unpacking leaves them. Of four vectors,
// 128-bit lane l of vector j holds channels 16 * l + 4 * j .. + 3. Packing the four restores the
// order, so that sources and results need no permutation; weights and other values of a channel are
// permuted instead.
//
// Several groups of fewer channels (kGroups: 2 of 32, 4 of 16) share the same vectors; their
// results belong to different rows. Included by the ISA source only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/conv_activation.h"
#include "kernels/dot4/avx512vnni.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kLaneVectors = 4;

// runs[l]: 16 channels from 16 * l on, four bytes each.
template <int kGroups>
CPUACCEL_INLINE void order_lanes(const __m512i* runs, __m512i* ordered) {
  constexpr int kRuns = kLaneVectors / kGroups;
  const __m512i a = runs[0], b = runs[1 % kRuns], c = runs[2 % kRuns], d = runs[3 % kRuns];
  const __m512i even_ab = _mm512_shuffle_i32x4(a, b, 0x88);
  const __m512i even_cd = _mm512_shuffle_i32x4(c, d, 0x88);
  const __m512i odd_ab = _mm512_shuffle_i32x4(a, b, 0xdd);
  const __m512i odd_cd = _mm512_shuffle_i32x4(c, d, 0xdd);
  ordered[0] = _mm512_shuffle_i32x4(even_ab, even_cd, 0x88);
  ordered[1] = _mm512_shuffle_i32x4(odd_ab, odd_cd, 0x88);
  ordered[2] = _mm512_shuffle_i32x4(even_ab, even_cd, 0xdd);
  ordered[3] = _mm512_shuffle_i32x4(odd_ab, odd_cd, 0xdd);
}

template <int kGroups>
CPUACCEL_INLINE void load_lanes(const void* from, __m512i* ordered) {
  constexpr int kRuns = kLaneVectors / kGroups;
  __m512i runs[kRuns];
  CPUACCEL_UNROLL
  for (int l = 0; l < kRuns; ++l) {
    runs[l] = _mm512_loadu_si512(static_cast<const std::byte*>(from) + l * 64);
  }
  order_lanes<kGroups>(runs, ordered);
}

// Weights of the channels from c on, for tap column kw of a quad of kernel rows. c need not begin a
// block, but all channels must exist.
template <int kGroups>
CPUACCEL_INLINE void load_weight_lanes(const DwconvWeights& weights, int64_t c, int64_t quad,
                                       int64_t kw, __m512i* ordered) {
  constexpr int kRuns = kLaneVectors / kGroups;
  const int64_t tap_bytes = kDwconvBlock * 4;
  const int64_t block_bytes = weights.quads() * weights.shape.KW * tap_bytes;
  const int8_t* blocks = weights.block(0) + (quad * weights.shape.KW + kw) * tap_bytes;
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i picks = _mm512_add_epi32(count, _mm512_set1_epi32(static_cast<int>(c % 16)));
  __m512i runs[kRuns];
  CPUACCEL_UNROLL
  for (int64_t l = 0; l < kRuns; ++l) {
    const int64_t first = c + l * kDwconvBlock, last = first + kDwconvBlock - 1;
    const __m512i low = _mm512_loadu_si512(blocks + first / kDwconvBlock * block_bytes);
    const __m512i high = _mm512_loadu_si512(blocks + last / kDwconvBlock * block_bytes);
    runs[l] = _mm512_permutex2var_epi32(low, picks, high);
  }
  order_lanes<kGroups>(runs, ordered);
}

// What turns the sums of these channels into results.
struct LaneResults {
  __m512i start[kLaneVectors];  // -src_zero_point * sum of weights
  __m512 scale[kLaneVectors], bias[kLaneVectors];
  __m512i zero_point, low, high, flip;

  template <int kGroups>
  CPUACCEL_INLINE void load(const DwconvCall& call, int64_t c) {
    const Avx512VnniDot4::Quantizer all(call.dst.zero_point, call.dst.min, call.dst.max,
                                        call.dst.flip());
    zero_point = all.zero_point;
    low = all.low;
    high = all.high;
    flip = all.flip;
    __m512i lanes[kLaneVectors];
    load_lanes<kGroups>(call.weights->sums() + c, lanes);
    const __m512i minus = _mm512_set1_epi32(-call.src_zero_point);
    CPUACCEL_UNROLL
    for (int j = 0; j < kLaneVectors; ++j) {
      start[j] = _mm512_mullo_epi32(lanes[j], minus);
    }
    load_lanes<kGroups>(call.dst.scales + c, lanes);
    CPUACCEL_UNROLL
    for (int j = 0; j < kLaneVectors; ++j) {
      scale[j] = _mm512_castsi512_ps(lanes[j]);
    }
    load_lanes<kGroups>(call.dst.bias + c, lanes);
    CPUACCEL_UNROLL
    for (int j = 0; j < kLaneVectors; ++j) {
      bias[j] = _mm512_castsi512_ps(lanes[j]);
    }
  }
};

// Applies ConvDst, except for the bounds, to the sums of vectors 2 * half and 2 * half + 1. The
// results are 16-bit numbers.
template <int kPixels, bool kFunction>
CPUACCEL_INLINE void lane_words(const LaneResults& results, const ConvDst& dst, int half,
                                const __m512i (*acc)[kPixels], __m512i* words) {
  using V = Avx512VnniDot4;
  __m512 reals[2][kPixels];
  CPUACCEL_UNROLL
  for (int i = 0; i < 2; ++i) {
    const int j = 2 * half + i;
    CPUACCEL_UNROLL
    for (int p = 0; p < kPixels; ++p) {
      reals[i][p] = V::to_real(acc[i][p], results.scale[j], results.bias[j]);
    }
  }
  if constexpr (kFunction) {
    apply_activation<V::Floats, 2 * kPixels>(dst, reals[0]);
  }
  CPUACCEL_UNROLL
  for (int p = 0; p < kPixels; ++p) {
    words[p] = _mm512_adds_epi16(
        _mm512_packs_epi32(_mm512_cvtps_epi32(reals[0][p]), _mm512_cvtps_epi32(reals[1][p])),
        results.zero_point);
  }
}

template <bool kLimited>
CPUACCEL_INLINE __m512i lane_bytes(const LaneResults& results, __m512i low, __m512i high) {
  const __m512i bytes = _mm512_packus_epi16(low, high);
  if constexpr (!kLimited) {
    return bytes;
  }
  const __m512i limited = _mm512_min_epu8(_mm512_max_epu8(bytes, results.low), results.high);
  return _mm512_xor_si512(limited, results.flip);
}

// Loads source rows and stores a pixel's results, with an address for each group's bytes.
template <int kGroups>
CPUACCEL_INLINE __m512i load_groups(const uint8_t* const* rows, int64_t offset) {
  const auto half = [&](int g) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[g] + offset));
  };
  const auto quarter = [&](int g) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[g] + offset));
  };
  if constexpr (kGroups == 1) {
    return _mm512_loadu_si512(rows[0] + offset);
  } else if constexpr (kGroups == 2) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(1), 1);
  } else {
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(0)), quarter(1), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(2)), quarter(3), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
}

template <int kGroups>
CPUACCEL_INLINE void store_groups(uint8_t* const* rows, int64_t offset, __m512i bytes) {
  if constexpr (kGroups == 1) {
    _mm512_storeu_si512(rows[0] + offset, bytes);
  } else if constexpr (kGroups == 2) {
    Avx512VnniDot4::store_halves(rows[0] + offset, rows[1] + offset, bytes);
  } else {
    const auto quarter = [&](int g, __m128i part) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(rows[g] + offset), part);
    };
    quarter(0, _mm512_castsi512_si128(bytes));
    quarter(1, _mm512_extracti32x4_epi32(bytes, 1));
    quarter(2, _mm512_extracti32x4_epi32(bytes, 2));
    quarter(3, _mm512_extracti32x4_epi32(bytes, 3));
  }
}

// The work of one call of the row function.
struct LanePiece {
  const DwconvCall& call;
  int64_t n, oh, rows;
  const uint8_t* padding;  // as long as a row of src
};

// kRows rows of results for each group, and the source rows that they read.
template <int kStride, int kSrcRows, int kRows, int kGroups>
struct LaneRows {
  const uint8_t* src[kSrcRows][kGroups];
  uint8_t* dst[kRows][kGroups];

  static int64_t units(const LanePiece& piece) { return (piece.rows + kRows - 1) / kRows; }

  // Group g has unit `unit` + g, a unit being kRows rows; channels from c on.
  CPUACCEL_INLINE LaneRows(const LanePiece& piece, int64_t unit, int64_t c) {
    const DwconvCall& call = piece.call;
    const DwconvShape& shape = call.weights->shape;
    const int64_t last = units(piece) - 1;
    CPUACCEL_UNROLL
    for (int64_t g = 0; g < kGroups; ++g) {
      // Groups past the end repeat the last one's work.
      const int64_t row = (unit + g < last ? unit + g : last) * kRows;
      CPUACCEL_UNROLL
      for (int64_t r = 0; r < kSrcRows; ++r) {
        const int64_t ih = (piece.oh + row) * kStride - shape.PH + r;
        src[r][g] = ih < 0 || ih >= call.IH
                        ? piece.padding
                        : call.src + (piece.n * call.IH + ih) * call.IW * shape.C + c;
      }
      CPUACCEL_UNROLL
      for (int64_t r = 0; r < kRows; ++r) {
        // A row past the end is stored where the one before it is stored afterwards.
        const int64_t to = piece.oh + (row + r < piece.rows ? row + r : row);
        dst[r][g] =
            static_cast<uint8_t*>(call.dst.data) + (piece.n * call.OH + to) * call.OW * shape.C + c;
      }
    }
  }
};

// The number of groups to compute next, with `left` channels to go. If fewer than 64, 32 or 16 are
// left, the last 64, 32 or 16 of all channels are computed, some for a second time, so that nothing
// needs masks.
CPUACCEL_INLINE int64_t lane_groups(int64_t C, int64_t left) {
  if (C >= 64 && left > 32) {
    return 1;
  }
  return C >= 32 && left > 16 ? 2 : 4;
}

// Calls run.operator()<groups>(c) until all channels are covered.
template <typename Run>
CPUACCEL_INLINE void run_lanes(int64_t C, const Run& run) {
  for (int64_t c = 0; c < C;) {
    const int64_t groups = lane_groups(C, C - c), width = Avx512VnniDot4::kBytes / groups;
    const int64_t first = c < C - width ? c : C - width;
    if (groups == 1) {
      run.template operator()<1>(first);
    } else if (groups == 2) {
      run.template operator()<2>(first);
    } else {
      run.template operator()<4>(first);
    }
    c = first + width;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
