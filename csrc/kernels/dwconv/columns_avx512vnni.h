// Depthwise 3x3 convolution on AVX512-VNNI, stride 1 and 2, with all taps in registers. Works along
// a row of results, two at a time. Each source column is unpacked once and stays in registers until
// its last result.
//
// At stride 1 a quad of source rows serves two rows of results: the second row's weights are the
// first's, shifted down by a row. Included by the ISA source only.
#pragma once

#include "kernels/dwconv/lanes_avx512vnni.h"

namespace cpuaccel::kernels {
namespace {

template <int kStride, int kGroups>
struct ColumnChannels {
  static constexpr int kRows = kStride == 1 ? 2 : 1;
  __m512i weights[kLaneVectors][3][kRows];
  LaneResults results;

  CPUACCEL_INLINE void load(const DwconvCall& call, int64_t c) {
    CPUACCEL_UNROLL
    for (int64_t kw = 0; kw < 3; ++kw) {
      __m512i lanes[kLaneVectors];
      load_weight_lanes<kGroups>(*call.weights, c, 0, kw, lanes);
      CPUACCEL_UNROLL
      for (int j = 0; j < kLaneVectors; ++j) {
        CPUACCEL_UNROLL
        for (int r = 0; r < kRows; ++r) {
          weights[j][kw][r] = r == 0 ? lanes[j] : _mm512_slli_epi32(lanes[j], 8);
        }
      }
    }
    results.load<kGroups>(call, c);
  }
};

// kLimited: dst is clamped to less than 0 .. 255, or is s8. kFunction: there is a post-op, which is
// a call.
template <int kStride, int kGroups, bool kLimited, bool kFunction>
struct DwconvColumns {
  using V = Avx512VnniDot4;
  using Channels = ColumnChannels<kStride, kGroups>;
  static constexpr int kRows = Channels::kRows;
  static constexpr int kSrcRows = 3 + (kRows - 1) * kStride;
  static constexpr int kResults = 2;  // side by side
  static constexpr int kPixels = kRows * kResults;
  static constexpr int kNew = kResults * kStride;
  static constexpr int kKept = 3 - kStride;
  using Rows = LaneRows<kStride, kSrcRows, kRows, kGroups>;

  const LanePiece& piece;
  const DwconvCall& call = piece.call;

  void channels(int64_t c) const {
    alignas(64) Channels kept;
    kept.load(call, c);
    // Read from memory where they are needed. The compiler would keep them in registers, and the
    // sums in memory.
    const Channels* channels = &kept;
    asm volatile("" : "+r"(channels) : : "memory");
    for (int64_t unit = 0; unit < Rows::units(piece); unit += kGroups) {
      row(*channels, Rows(piece, unit, c));
    }
  }

 private:
  CPUACCEL_INLINE static void column(const Rows& of, bool inside, int64_t offset,
                                     __m512i zero_point, __m512i* taps) {
    if (!inside) {
      taps[0] = taps[1] = taps[2] = taps[3] = zero_point;
      return;
    }
    __m512i src[4];
    CPUACCEL_UNROLL
    for (int r = 0; r < kSrcRows; ++r) {
      src[r] = load_groups<kGroups>(of.src[r], offset);
      asm("" : "+v"(src[r]));  // load once, not in each instruction that reads it
    }
    if constexpr (kSrcRows == 3) {
      src[3] = src[2];  // its weights are 0
    }
    V::interleave4(src[0], src[1], src[2], src[3], taps);
  }

  void row(const Channels& channels, const Rows& of) const {
    const __m512i zero_point = V::set1_u8(static_cast<uint8_t>(call.src_zero_point));
    __m512i taps[kKept + kNew][kLaneVectors];
    const int64_t C = call.weights->shape.C;
    const auto IW = static_cast<uint64_t>(call.IW);
    int64_t iw = -call.weights->shape.PW, from = iw * C;
    const auto next_column = [&](__m512i* to) __attribute__((always_inline)) {
      column(of, static_cast<uint64_t>(iw) < IW, from, zero_point, to);
      ++iw;
      from += C;
    };
    CPUACCEL_UNROLL
    for (int k = 0; k < kKept; ++k) {
      next_column(taps[k]);
    }
    int64_t to = 0;
    for (int64_t left = call.OW; left > 0; left -= kResults, to += kResults * C) {
      CPUACCEL_UNROLL
      for (int k = 0; k < kNew; ++k) {
        next_column(taps[kKept + k]);
      }
      // A column past the end is stored where the one before it is stored afterwards.
      const int64_t second = left > 1 ? C : 0;
      results(channels, of, to, second, taps);
      CPUACCEL_UNROLL
      for (int k = 0; k < kKept; ++k) {
        CPUACCEL_UNROLL
        for (int j = 0; j < kLaneVectors; ++j) {
          taps[k][j] = taps[kNew + k][j];
        }
      }
    }
  }

  // Sums of vectors j and j + 1 for all pixels, which are enough independent sums to hide latency.
  CPUACCEL_INLINE static void sums(const Channels& channels, int j,
                                   const __m512i (*taps)[kLaneVectors], __m512i (*acc)[kPixels]) {
    CPUACCEL_UNROLL
    for (int i = 0; i < 2; ++i) {
      CPUACCEL_UNROLL
      for (int p = 0; p < kPixels; ++p) {
        acc[i][p] = p == 0 ? channels.results.start[j + i] : acc[i][0];
      }
    }
    CPUACCEL_UNROLL
    for (int kw = 0; kw < 3; ++kw) {
      CPUACCEL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        CPUACCEL_UNROLL
        for (int i = 0; i < 2; ++i) {
          const __m512i weights = channels.weights[j + i][kw][r];
          CPUACCEL_UNROLL
          for (int k = 0; k < kResults; ++k) {
            V::accumulate(acc[i][r * kResults + k], taps[k * kStride + kw][j + i], weights);
          }
        }
      }
    }
  }

  CPUACCEL_INLINE void results(const Channels& channels, const Rows& of, int64_t offset,
                               int64_t second, const __m512i (*taps)[kLaneVectors]) const {
    __m512i words[2][kPixels];
    CPUACCEL_UNROLL
    for (int half = 0; half < 2; ++half) {
      __m512i acc[2][kPixels];
      sums(channels, 2 * half, taps, acc);
      lane_words<kPixels, kFunction>(channels.results, call.dst, half, acc, words[half]);
    }
    CPUACCEL_UNROLL
    for (int p = kPixels - 1; p >= 0; --p) {
      store_groups<kGroups>(of.dst[p / kResults], offset + p % kResults * second,
                            lane_bytes<kLimited>(channels.results, words[0][p], words[1][p]));
    }
  }
};

template <int kStride, bool kLimited, bool kFunction>
void dwconv_columns(const LanePiece& piece) {
  run_lanes(piece.call.weights->shape.C,
            [&]<int kGroups>(int64_t c) __attribute__((always_inline)) {
              DwconvColumns<kStride, kGroups, kLimited, kFunction>{piece}.channels(c);
            });
}

// Returns false and does nothing if the shape does not suit.
bool dwconv_columns(const LanePiece& piece) {
  const ConvDst& dst = piece.call.dst;
  const DwconvShape& s = piece.call.weights->shape;
  if (s.KH != 3 || s.KW != 3 || s.SH != s.SW || s.SH > 2 || s.DH != 1 || s.DW != 1) {
    return false;
  }
  const bool limited = dst.min > 0 || dst.max < 255 || dst.flip() != 0;
  const bool activates = dst.activation != Activation::none;
  using Run = void(const LanePiece&);
  constexpr Run* kRuns[2][3] = {{dwconv_columns<1, false, false>, dwconv_columns<1, true, false>,
                                 dwconv_columns<1, true, true>},
                                {dwconv_columns<2, false, false>, dwconv_columns<2, true, false>,
                                 dwconv_columns<2, true, true>}};
  kRuns[s.SH - 1][activates ? 2 : limited ? 1 : 0](piece);
  return true;
}

}  // namespace
}  // namespace cpuaccel::kernels
