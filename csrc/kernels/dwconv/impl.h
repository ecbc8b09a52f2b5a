// int8 depthwise convolution for any vector class of csrc/kernels/dot4. Included by ISA sources
// only.
//
// Four rows of a column, interleaved, are one vector of four taps a channel. Two rows of results
// share them if the stride allows: the second row's weights are the first's, shifted by a row. A
// tile's columns are first interleaved into scratch memory (each serves KW results); then the tile
// is computed, kLanes channels at a time.
#pragma once

#include <cstdint>

#include "kernels/conv_activation.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/dwconv/tile.h"

namespace cpuaccel::kernels {
namespace {

// One source row for the interleaving.
struct SrcRow {
  const uint8_t* data;  // column 0, or the padding
  int64_t stride;       // C, or 0 for padding
};

template <typename V>
struct DwconvLoop {
  using Int = typename V::Int;
  using Float = typename V::Float;
  static constexpr int64_t kLanes = V::kLanes;
  static constexpr int64_t kBytes = V::kBytes;
  static constexpr int kParts = V::kParts;

  const DwconvCall& call;
  const DwconvShape& shape;
  const DwconvTile& tile;  // kRows rows of results
  int64_t n;
  uint8_t* taps;     // [4 vectors of channels][column][quad][kParts] vectors
  uint8_t* weights;  // [4 vectors of channels][row][kw][quad][kParts] vectors
  const uint8_t* src_end;

  int64_t part_stride() const { return tile.columns * tile.quads * kParts * kBytes; }
  int64_t weight_stride() const { return tile.rows * shape.KW * tile.quads * kParts * kBytes; }
  int64_t columns(int64_t outputs) const {
    return (outputs - 1) * shape.SW + (shape.KW - 1) * shape.DW + 1;
  }

  SrcRow src_row(int64_t oh, int64_t r, int64_t c, const uint8_t* padding) const {
    const int64_t ih = oh * shape.SH - shape.PH + r * shape.DH;
    if (ih < 0 || ih >= call.IH) {
      return {padding, 0};
    }
    return {call.src + ((n * call.IH + ih) * call.IW) * shape.C + c, shape.C};
  }

  void put(uint8_t*& to, Int bytes) const {
    Int parts[kParts];
    V::expand(bytes, parts);
    for (int p = 0; p < kParts; ++p) {
      V::store(to + p * kBytes, parts[p]);
    }
  }

  // Interleaves the taps of channels [c, c + 4 * kLanes) for results [ow, ow + outputs) of the rows
  // from `oh` on.
  void interleave(int64_t oh, int64_t c, int64_t ow, int64_t outputs) const {
    alignas(kBytes) uint8_t padding[kBytes];
    const Int zero_point = V::set1_u8(static_cast<uint8_t>(call.src_zero_point));
    V::store(padding, zero_point);
    const int64_t count = shape.C - c < kBytes ? shape.C - c : kBytes;
    const int64_t quads = tile.quads;
    const int64_t first = ow * shape.SW - shape.PW;
    const int64_t width = columns(outputs);
    for (int64_t q = 0; q < quads; ++q) {
      SrcRow rows[4];
      const uint8_t* ends[4];
      for (int64_t i = 0; i < 4; ++i) {
        // Rows past the window have weights of 0, so that any bytes will do.
        const int64_t last = shape.KH - 1 + (tile.rows - 1);
        const int64_t r = 4 * q + i < last ? 4 * q + i : last;
        rows[i] = src_row(oh, r, c, padding);
        ends[i] = rows[i].stride == 0 ? padding + kBytes : src_end;
      }
      uint8_t* to = taps + q * kParts * kBytes;
      for (int64_t column = 0; column < width; ++column, to += quads * kParts * kBytes) {
        const int64_t iw = first + column;
        Int out[4];
        if (iw < 0 || iw >= call.IW) {
          out[0] = out[1] = out[2] = out[3] = zero_point;
        } else {
          Int row[4];
          for (int i = 0; i < 4; ++i) {
            row[i] = V::spread(V::load_bytes(rows[i].data + iw * rows[i].stride, count, ends[i]));
          }
          V::interleave4(row[0], row[1], row[2], row[3], out);
        }
        uint8_t* at = to;
        for (int s = 0; s < 4; ++s, at += part_stride()) {
          put(at, out[s]);
        }
      }
    }
  }

  // Weights of channels [c, c + kLanes) for each row of results. Row 1 reads the same taps one row
  // further down, so that its bytes move up by one.
  void spread_weights(int64_t c, uint8_t* to) const {
    const int64_t block_quads = call.weights->quads();
    const auto* packed = call.weights->block(c) + (c % kDwconvBlock) * 4;
    for (int64_t row = 0; row < tile.rows; ++row) {
      for (int64_t kw = 0; kw < shape.KW; ++kw) {
        for (int64_t q = 0; q < tile.quads; ++q, to += kParts * kBytes) {
          const auto quad = [&](int64_t i) {
            return i < 0 || i >= block_quads
                       ? V::zero()
                       : V::load(packed + (i * shape.KW + kw) * kDwconvBlock * 4);
          };
          put_weights(to, row == 0 ? quad(q) : V::shift_in_byte(quad(q), quad(q - 1)));
        }
      }
    }
  }

  void put_weights(uint8_t* to, Int bytes) const {
    Int parts[kParts];
    V::expand_weights(bytes, parts);
    for (int p = 0; p < kParts; ++p) {
      V::store(to + p * kBytes, parts[p]);
    }
  }

  // Sums of kLanes channels for kRows x kColumns results; columns past `last` repeat it. The result
  // of column k, row r is acc[k * kRows + r]. kKW, kQuads: 0 if not known at compile time.
  template <int kRows, int kColumns, int kKW, int kQuads>
  CPUACCEL_INLINE void accumulate(Int start, const uint8_t* w, const uint8_t* first_column,
                                  int64_t column_bytes, int64_t last, Int acc[]) const {
    const int64_t KW = kKW != 0 ? kKW : shape.KW;
    const int64_t Q = kQuads != 0 ? kQuads : tile.quads;
    const int64_t step = shape.DW * Q * kParts * kBytes;
    const int64_t weight_row = KW * Q * kParts * kBytes;
    const uint8_t* columns[kColumns];
    for (int64_t k = 0; k < kColumns; ++k) {
      columns[k] = first_column + (k < last ? k : last) * column_bytes;
    }
    for (int i = 0; i < kRows * kColumns; ++i) {
      acc[i] = start;
    }
    for (int64_t kw = 0; kw < KW; ++kw) {
      for (int64_t part = 0; part < Q * kParts; ++part) {
        Int row_weights[kRows];
        for (int r = 0; r < kRows; ++r) {
          row_weights[r] = V::load(w + r * weight_row + (kw * Q * kParts + part) * kBytes);
        }
        for (int k = 0; k < kColumns; ++k) {
          const Int taps_of_column = V::load(columns[k] + kw * step + part * kBytes);
          for (int r = 0; r < kRows; ++r) {
            acc[k * kRows + r] = V::dot(acc[k * kRows + r], taps_of_column, row_weights[r]);
          }
        }
      }
    }
  }

  // Computes channels [c, c + count), count <= kLanes, of results [ow, ow + outputs) of the rows
  // from `oh` on.
  template <int kRows, int kKW, int kQuads>
  void results(int64_t oh, int64_t c, int64_t count, const uint8_t* w, const uint8_t* first_column,
               int64_t ow, int64_t outputs) const {
    alignas(kBytes) int32_t sums[kLanes];
    alignas(kBytes) float scales[kLanes] = {}, biases[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) {
      scales[i] = call.dst.scales[c + i];
      biases[i] = call.dst.bias[c + i];
    }
    for (int64_t i = 0; i < kLanes; ++i) {
      sums[i] = (V::kSourceOffset - call.src_zero_point) * call.weights->sums()[c + i];
    }
    const Int start = V::load(sums);
    const Float scale = V::load(static_cast<const float*>(scales));
    const Float bias = V::load(static_cast<const float*>(biases));
    const typename V::Quantizer quantizer(call.dst.zero_point, call.dst.min, call.dst.max,
                                          call.dst.flip());
    const int64_t Q = kQuads != 0 ? kQuads : tile.quads;
    const int64_t column_bytes = shape.SW * Q * kParts * kBytes;
    const int64_t element = call.dst.element_size();
    auto* dst = static_cast<uint8_t*>(call.dst.data) +
                (((n * call.OH + oh) * call.OW + ow) * shape.C + c) * element;
    const int64_t dst_row = call.OW * shape.C * element;
    const int64_t dst_step = shape.C * element;
    const int64_t counts[4] = {count, count, count, count};
    // As many results at a time as the registers hold; the last columns may be repeated.
    constexpr int64_t kColumns = V::kResults / kRows;
    const auto group = [&](int64_t last, auto to_address) __attribute__((always_inline)) {
      Int acc[V::kResults];
      accumulate<kRows, kColumns, kKW, kQuads>(start, w, first_column, column_bytes, last, acc);
      const auto four = [&](int first) __attribute__((always_inline)) {
        Float real[4];
        uint8_t* to[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          real[i] = V::to_real(acc[first + i], scale, bias);
          to[i] = to_address(first + i);
        }
        apply_activation<typename V::Floats, 4>(call.dst, real);
        if (call.dst.type == DataType::f32) {
          for (int i = 0; i < 4; ++i) {
            V::store_floats(reinterpret_cast<float*>(to[i]), real[i], count);
          }
        } else {
          V::store4(to, V::quantize4(real, quantizer), counts);
        }
      };
#pragma GCC unroll 4
      for (int i = 0; i < V::kResults; i += 4) {
        four(i);
      }
    };
    int64_t j = 0;
    for (; j + kColumns <= outputs; j += kColumns) {
      group(kColumns - 1,
            [&](int64_t i) { return dst + i % kRows * dst_row + i / kRows * dst_step; });
      first_column += kColumns * column_bytes;
      dst += kColumns * dst_step;
    }
    if (j < outputs) {
      const int64_t last = outputs - 1 - j;
      group(last, [&](int64_t i) {
        const int64_t column = i / kRows < last ? i / kRows : last;
        return dst + i % kRows * dst_row + column * dst_step;
      });
    }
  }

  // Computes rows [oh, oh + groups * kRows) of dst.
  template <int kRows, int kKW, int kQuads>
  void run(int64_t oh, int64_t groups) const {
    for (int64_t ow = 0; ow < call.OW; ow += tile.outputs) {
      const int64_t outputs = call.OW - ow < tile.outputs ? call.OW - ow : tile.outputs;
      for (int64_t c = 0; c < shape.C; c += 4 * kLanes) {
        const int64_t left = (shape.C - c + kLanes - 1) / kLanes;
        const int64_t vectors = left < 4 ? left : 4;
        for (int64_t s = 0; s < vectors; ++s) {
          spread_weights(c + s * kLanes, weights + s * weight_stride());
        }
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t row = oh + group * kRows;
          interleave(row, c, ow, outputs);
          for (int64_t s = 0; s < vectors; ++s) {
            const int64_t from = c + s * kLanes;
            const int64_t count = shape.C - from < kLanes ? shape.C - from : kLanes;
            results<kRows, kKW, kQuads>(row, from, count, weights + s * weight_stride(),
                                        taps + s * part_stride(), ow, outputs);
          }
        }
      }
    }
  }

  template <int kRows>
  void run_groups(int64_t oh, int64_t groups) const {
    if (shape.KW == 3 && tile.quads == 1) {
      run<kRows, 3, 1>(oh, groups);
    } else if (shape.KW == 5 && tile.quads == 2) {
      run<kRows, 5, 2>(oh, groups);
    } else if (shape.KW == 7 && tile.quads == 2) {
      run<kRows, 7, 2>(oh, groups);
    } else {
      run<kRows, 0, 0>(oh, groups);
    }
  }
};

template <typename V, int kRows>
void dwconv_groups(const DwconvCall& call, int64_t n, int64_t oh, int64_t groups, void* scratch) {
  if (groups == 0) {
    return;
  }
  const DwconvShape& shape = call.weights->shape;
  const DwconvTile tile = dwconv_tile(call, kRows, V::kParts * V::kBytes);
  auto* taps = static_cast<uint8_t*>(scratch);
  const uint8_t* src_end = call.src + call.N * call.IH * call.IW * shape.C;
  const DwconvLoop<V> loop{call, shape, tile, n, taps, taps + tile.tap_bytes, src_end};
  loop.template run_groups<kRows>(oh, groups);
}

template <typename V>
void dwconv_rows(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* scratch) {
  const int64_t pairs = dwconv_pairs_rows(call.weights->shape) ? rows / 2 : 0;
  dwconv_groups<V, 2>(call, n, oh, pairs, scratch);
  dwconv_groups<V, 1>(call, n, oh + 2 * pairs, rows - 2 * pairs, scratch);
}

}  // namespace
}  // namespace cpuaccel::kernels
