// Depthwise convolution on AVX512-VNNI with kernels of four to seven rows (two quads), stride 1 and
// 2. The registers cannot hold their taps, so that a tile's columns are unpacked to scratch memory
// first. Two rows of results share them.
//
// Four results of a row are computed at a time: each weight is loaded once for four results, taps
// once for two rows. Included by the ISA source only.
#pragma once

#include "kernels/dwconv/lanes_avx512vnni.h"
#include "kernels/dwconv/tile.h"

namespace cpuaccel::kernels {
namespace {

template <int kStride, int kGroups, bool kFunction>
struct DwconvTall {
  using V = Avx512VnniDot4;
  static constexpr int kRows = 2;
  static constexpr int kQuads = 2;
  static constexpr int kColumn = kQuads * kLaneVectors;  // vectors of taps
  static constexpr int kMostResults = 4;                 // side by side
  using Rows = LaneRows<kStride, 4 * kQuads, kRows, kGroups>;

  const LanePiece& piece;
  const DwconvTile& tile;
  __m512i* taps;     // [column][quad][vector]
  __m512i* weights;  // [kw][quad][row][vector]
  const DwconvCall& call = piece.call;
  const DwconvShape& shape = call.weights->shape;

  void channels(int64_t c) const {
    load_weights(c);
    alignas(64) LaneResults kept;
    kept.load<kGroups>(call, c);
    const LaneResults* results = &kept;
    asm volatile("" : "+r"(results) : : "memory");
    for (int64_t unit = 0; unit < Rows::units(piece); unit += kGroups) {
      const Rows of(piece, unit, c);
      for (int64_t ow = 0; ow < call.OW; ow += tile.outputs) {
        const int64_t outputs = call.OW - ow < tile.outputs ? call.OW - ow : tile.outputs;
        unpack(of, ow * kStride - shape.PW, (outputs - 1) * kStride + shape.KW);
        row(*results, of, ow, outputs);
      }
    }
  }

 private:
  // Row 1 reads the same taps kStride rows further down.
  void load_weights(int64_t c) const {
    constexpr int kShift = 8 * kStride;
    __m512i* to = weights;
    for (int64_t kw = 0; kw < shape.KW; ++kw, to += kQuads * kRows * kLaneVectors) {
      __m512i quads[kQuads][kLaneVectors] = {};
      load_weight_lanes<kGroups>(*call.weights, c, 0, kw, quads[0]);
      if (call.weights->quads() > 1) {
        load_weight_lanes<kGroups>(*call.weights, c, 1, kw, quads[1]);
      }
      for (int j = 0; j < kLaneVectors; ++j) {
        const __m512i first = quads[0][j], second = quads[1][j];
        to[j] = first;
        to[kLaneVectors + j] = _mm512_slli_epi32(first, kShift);
        to[2 * kLaneVectors + j] = second;
        to[3 * kLaneVectors + j] = _mm512_or_si512(_mm512_slli_epi32(second, kShift),
                                                   _mm512_srli_epi32(first, 32 - kShift));
      }
    }
  }

  void unpack(const Rows& of, int64_t iw, int64_t columns) const {
    const __m512i zero_point = V::set1_u8(static_cast<uint8_t>(call.src_zero_point));
    const int64_t C = shape.C;
    const auto IW = static_cast<uint64_t>(call.IW);
    __m512i* to = taps;
    for (int64_t end = iw + columns; iw < end; ++iw, to += kColumn) {
      if (static_cast<uint64_t>(iw) >= IW) {
        CPUACCEL_UNROLL
        for (int i = 0; i < kColumn; ++i) {
          to[i] = zero_point;
        }
        continue;
      }
      CPUACCEL_UNROLL
      for (int q = 0; q < kQuads; ++q) {
        __m512i src[4], out[kLaneVectors];
        CPUACCEL_UNROLL
        for (int r = 0; r < 4; ++r) {
          src[r] = load_groups<kGroups>(of.src[4 * q + r], iw * C);
          asm("" : "+v"(src[r]));  // load once, not in each instruction that reads it
        }
        V::interleave4(src[0], src[1], src[2], src[3], out);
        CPUACCEL_UNROLL
        for (int j = 0; j < kLaneVectors; ++j) {
          to[q * kLaneVectors + j] = out[j];
        }
      }
    }
  }

  void row(const LaneResults& results, const Rows& of, int64_t ow, int64_t outputs) const {
    const __m512i* columns = taps;
    int64_t offset = ow * shape.C;
    int64_t left = outputs;
    for (; left > 2; left -= kMostResults) {
      some<4>(results, of, columns, offset, left);
      columns += kMostResults * kStride * kColumn;
      offset += kMostResults * shape.C;
    }
    if (left > 0) {
      some<2>(results, of, columns, offset, left);
    }
  }

  // Computes kResults neighboring results. Those from `left` on repeat the last one and are stored
  // before it.
  template <int kResults>
  CPUACCEL_INLINE void some(const LaneResults& results, const Rows& of, const __m512i* columns,
                            int64_t offset, int64_t left) const {
    constexpr int kPixels = kRows * kResults;
    int64_t column[kResults], to[kResults];
    CPUACCEL_UNROLL
    for (int64_t k = 0; k < kResults; ++k) {
      const int64_t at = k < left ? k : left - 1;
      column[k] = at * kStride * kColumn;
      to[k] = offset + at * shape.C;
    }
    // The first half's results go to memory, as otherwise not all sums would have a register.
    alignas(64) __m512i first[kPixels];
    __m512i second[kPixels], acc[2][kPixels];
    sums<kResults>(results, 0, columns, column, acc);
    lane_words<kPixels, kFunction>(results, call.dst, 0, acc, first);
    asm volatile("" : : "r"(first) : "memory");
    sums<kResults>(results, 2, columns, column, acc);
    asm volatile("" : : "r"(first) : "memory");
    lane_words<kPixels, kFunction>(results, call.dst, 1, acc, second);
    CPUACCEL_UNROLL
    for (int p = kPixels - 1; p >= 0; --p) {
      store_groups<kGroups>(of.dst[p / kResults], to[p % kResults],
                            lane_bytes<true>(results, first[p], second[p]));
    }
  }

  // Sums of vectors j and j + 1.
  template <int kResults>
  CPUACCEL_INLINE void sums(const LaneResults& results, int j, const __m512i* columns,
                            const int64_t* column, __m512i (*acc)[kRows * kResults]) const {
    CPUACCEL_UNROLL
    for (int i = 0; i < 2; ++i) {
      CPUACCEL_UNROLL
      for (int p = 0; p < kRows * kResults; ++p) {
        acc[i][p] = p == 0 ? results.start[j + i] : acc[i][0];
      }
    }
    const __m512i* w = weights + j;
    const __m512i* from = columns + j;
    for (int64_t kw = 0; kw < shape.KW; ++kw) {
      CPUACCEL_UNROLL
      for (int q = 0; q < kQuads; ++q) {
        CPUACCEL_UNROLL
        for (int i = 0; i < 2; ++i) {
          __m512i of_row[kRows];
          CPUACCEL_UNROLL
          for (int r = 0; r < kRows; ++r) {
            of_row[r] = w[(q * kRows + r) * kLaneVectors + i];
          }
          CPUACCEL_UNROLL
          for (int k = 0; k < kResults; ++k) {
            const __m512i tap = from[column[k] + q * kLaneVectors + i];
            CPUACCEL_UNROLL
            for (int r = 0; r < kRows; ++r) {
              V::accumulate(acc[i][r * kResults + k], tap, of_row[r]);
            }
          }
        }
      }
      w += kQuads * kRows * kLaneVectors;
      from += kColumn;
    }
  }
};

template <int kStride, bool kFunction>
void dwconv_tall(const LanePiece& piece, std::byte* scratch) {
  const DwconvTile tile = dwconv_tile(piece.call, 2, Avx512VnniDot4::kBytes);
  auto* taps = reinterpret_cast<__m512i*>(scratch);
  auto* weights = reinterpret_cast<__m512i*>(scratch + tile.tap_bytes);
  run_lanes(piece.call.weights->shape.C,
            [&]<int kGroups>(int64_t c) __attribute__((always_inline)) {
              DwconvTall<kStride, kGroups, kFunction>{piece, tile, taps, weights}.channels(c);
            });
}

// Returns false and does nothing if the shape does not suit. Two rows of results must fit the
// two quads.
bool dwconv_tall(const LanePiece& piece, std::byte* scratch) {
  const DwconvShape& s = piece.call.weights->shape;
  if (s.KH < 4 || s.KH + s.SH > 8 || s.SH != s.SW || s.SH > 2 || s.DH != 1 || s.DW != 1) {
    return false;
  }
  const bool activates = piece.call.dst.activation != Activation::none;
  if (s.SH == 1) {
    activates ? dwconv_tall<1, true>(piece, scratch) : dwconv_tall<1, false>(piece, scratch);
  } else {
    activates ? dwconv_tall<2, true>(piece, scratch) : dwconv_tall<2, false>(piece, scratch);
  }
  return true;
}

}  // namespace
}  // namespace cpuaccel::kernels
