// The loop of dwconv for a vector type of csrc/kernels/dot4. Included by ISA sources only.
//
// Four rows of a column, interleaved, are one vector of four taps a channel. Two rows of results
// share them where the stride allows: the second one's weights are the first one's, shifted by a
// row. First a tile's columns are interleaved into scratch memory (they serve KW results each),
// then every kLanes channels run over the tile.
#pragma once

#include <cstdint>

#include "kernels/dwconv/dwconv.h"
#include "kernels/dwconv/tile.h"

namespace cpuaccel::kernels {
namespace {

// One row of the source as the interleaving reads it.
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
  const DwconvTile tile;
  int64_t n, oh;
  int64_t quads;     // of the rows that all results of this group read
  uint8_t* taps;     // [4 * kLanes channels: 4 parts][column][quad][kParts] vectors
  uint8_t* weights;  // [row][kw][quad][kParts] vectors
  const uint8_t* src_end;

  int64_t columns(int64_t outputs) const {
    return (outputs - 1) * shape.SW + (shape.KW - 1) * shape.DW + 1;
  }

  SrcRow src_row(int64_t r, int64_t c, const uint8_t* padding) const {
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

  // Taps of channels [c, c + 4 * kLanes) and the columns that results [ow, ow + outputs) read.
  void interleave(int64_t c, int64_t ow, int64_t outputs) const {
    alignas(kBytes) uint8_t padding[kBytes];
    const Int zero_point = V::set1_u8(static_cast<uint8_t>(call.src_zero_point));
    V::store(padding, zero_point);
    const int64_t count = shape.C - c < kBytes ? shape.C - c : kBytes;
    const int64_t part_stride = tile.columns * quads * kParts * kBytes;
    const int64_t first = ow * shape.SW - shape.PW;
    const int64_t width = columns(outputs);
    for (int64_t q = 0; q < quads; ++q) {
      SrcRow rows[4];
      const uint8_t* ends[4];
      for (int64_t i = 0; i < 4; ++i) {
        // Rows past the window meet weights of 0; any bytes do.
        const int64_t last = shape.KH - 1 + (tile.rows - 1);
        const int64_t r = 4 * q + i < last ? 4 * q + i : last;
        rows[i] = src_row(r, c, padding);
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
        for (int s = 0; s < 4; ++s, at += part_stride) {
          put(at, out[s]);
        }
      }
    }
  }

  // Weights of channels [c, c + kLanes) for each row of results: row 1 reads the same taps one row
  // further down, so its bytes move up by one.
  void spread_weights(int64_t c) const {
    const int64_t block_quads = call.weights->quads();
    const auto* packed = call.weights->block(c) + (c % kDwconvBlock) * 4;
    uint8_t* to = weights;
    for (int64_t row = 0; row < tile.rows; ++row) {
      for (int64_t kw = 0; kw < shape.KW; ++kw) {
        for (int64_t q = 0; q < quads; ++q, to += kParts * kBytes) {
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

  // kLanes channels of kRows x kColumns results; result i of column k, row r is k * kRows + r.
  // kKW, kQuads: 0 where not known at compile time.
  template <int kRows, int kColumns, int kKW, int kQuads>
  void accumulate(Int start, const uint8_t* const columns[kColumns], Int acc[]) const {
    const int64_t KW = kKW != 0 ? kKW : shape.KW;
    const int64_t Q = kQuads != 0 ? kQuads : quads;
    const int64_t step = shape.DW * Q * kParts * kBytes;
    const int64_t weight_row = KW * Q * kParts * kBytes;
    for (int i = 0; i < kRows * kColumns; ++i) {
      acc[i] = start;
    }
    for (int64_t kw = 0; kw < KW; ++kw) {
      for (int64_t part = 0; part < Q * kParts; ++part) {
        const uint8_t* w = weights + (kw * Q * kParts + part) * kBytes;
        Int row_weights[kRows];
        for (int r = 0; r < kRows; ++r) {
          row_weights[r] = V::load(w + r * weight_row);
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

  // Channels [c, c + count), count <= kLanes, of results [ow, ow + outputs) of the group's rows.
  template <int kRows, int kKW, int kQuads>
  void results(int64_t c, int64_t count, const uint8_t* first_column, int64_t ow,
               int64_t outputs) const {
    alignas(kBytes) int32_t sums[kLanes];
    alignas(kBytes) float scales[kLanes] = {}, biases[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) {
      scales[i] = call.dst.scales[c + i];
      biases[i] = call.dst.bias[c + i];
    }
    for (int64_t i = 0; i < kLanes; ++i) {
      sums[i] = -call.src_zero_point * call.weights->sums()[c + i];
    }
    const Int start = V::load(sums);
    const Float scale = V::load(static_cast<const float*>(scales));
    const Float bias = V::load(static_cast<const float*>(biases));
    const typename V::Quantizer quantizer(call.dst.zero_point, call.dst.min, call.dst.max,
                                          call.dst.flip());
    const int64_t Q = kQuads != 0 ? kQuads : quads;
    const int64_t column_bytes = shape.SW * Q * kParts * kBytes;
    const int64_t element = call.dst.element_size();
    auto* dst = static_cast<uint8_t*>(call.dst.data) +
                (((n * call.OH + oh) * call.OW + ow) * shape.C + c) * element;
    const int64_t dst_row = call.OW * shape.C * element;
    const int64_t dst_step = shape.C * element;
    const int64_t counts[4] = {count, count, count, count};
    // Eight results at a time, as many as registers hold; at the end columns are repeated.
    constexpr int kColumns = 8 / kRows;
    for (int64_t j = 0; j < outputs; j += kColumns) {
      const uint8_t* columns[kColumns];
      uint8_t* to[8];
      const int64_t last = outputs - 1 - j;
      for (int k = 0; k < kColumns; ++k) {
        const int64_t at = k < last ? k : last;
        columns[k] = first_column + at * column_bytes;
        for (int r = 0; r < kRows; ++r) {
          to[k * kRows + r] = dst + r * dst_row + at * dst_step;
        }
      }
      first_column += kColumns * column_bytes;
      dst += kColumns * dst_step;
      Int acc[8];
      accumulate<kRows, kColumns, kKW, kQuads>(start, columns, acc);
      for (int half = 0; half < 8; half += 4) {
        Float real[4];
        for (int i = 0; i < 4; ++i) {
          real[i] = V::to_real(acc[half + i], scale, bias);
        }
        if (call.dst.type == DstType::f32) {
          for (int i = 0; i < 4; ++i) {
            V::store_floats(reinterpret_cast<float*>(to[half + i]), real[i], count);
          }
        } else {
          V::store4(to + half, V::quantize4(real, quantizer), counts);
        }
      }
    }
  }

  template <int kRows, int kKW, int kQuads>
  void run() const {
    const int64_t part_stride = tile.columns * quads * kParts * kBytes;
    for (int64_t ow = 0; ow < call.OW; ow += tile.outputs) {
      const int64_t outputs = call.OW - ow < tile.outputs ? call.OW - ow : tile.outputs;
      for (int64_t c = 0; c < shape.C; c += 4 * kLanes) {
        interleave(c, ow, outputs);
        for (int s = 0; s < 4; ++s) {
          const int64_t from = c + s * kLanes;
          if (from >= shape.C) {
            break;
          }
          spread_weights(from);
          const int64_t count = shape.C - from < kLanes ? shape.C - from : kLanes;
          results<kRows, kKW, kQuads>(from, count, taps + s * part_stride, ow, outputs);
        }
      }
    }
  }

  template <int kRows>
  void run_rows() const {
    if (shape.KW == 3 && quads == 1) {
      run<kRows, 3, 1>();
    } else if (shape.KW == 5 && quads == 2) {
      run<kRows, 5, 2>();
    } else if (shape.KW == 7 && quads == 2) {
      run<kRows, 7, 2>();
    } else {
      run<kRows, 0, 0>();
    }
  }
};

template <typename V>
void dwconv_rows(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* scratch) {
  const DwconvShape& shape = call.weights->shape;
  const bool pairs = dwconv_pairs_rows(shape);
  for (int64_t done = 0; done < rows;) {
    const int64_t group = pairs && rows - done >= 2 ? 2 : 1;
    const DwconvTile tile = dwconv_tile(call, group, V::kParts * V::kBytes);
    auto* taps = static_cast<uint8_t*>(scratch);
    const DwconvLoop<V> loop{call,
                             shape,
                             tile,
                             n,
                             oh + done,
                             tile.quads,
                             taps,
                             taps + tile.tap_bytes,
                             call.src + call.N * call.IH * call.IW * shape.C};
    if (group == 2) {
      loop.template run_rows<2>();
    } else {
      loop.template run_rows<1>();
    }
    done += group;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
