// The loop for channels last: a vector is successive channels of a pixel. Included by ISA files.
#pragma once

#include "kernels/dwconv_f32/dwconv_f32.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// What a row of results reads: its taps inside of the image, and how many results go together.
struct PixelRow {
  const DwconvF32Call* call;
  const float* image;
  float* dst;
  int64_t ih;                // of tap 0, may be outside
  int64_t kh_begin, kh_end;  // taps inside of the image
};

// The taps [begin, end) of `size` that are inside, where tap 0 is at `first`.
CPUACCEL_INLINE void inside(int64_t first, int64_t dilation, int64_t taps, int64_t size,
                            int64_t& begin, int64_t& end) {
  begin = first >= 0 ? 0 : (-first + dilation - 1) / dilation;
  end = first >= size ? 0 : (size - first + dilation - 1) / dilation;
  end = end < taps ? end : taps;
  begin = begin < end ? begin : end;
}

// A vector of channels of kPixels successive results, of which the taps [kw_begin, kw_end) of a row
// are inside. `full` says that all lanes are channels.
template <typename Vector, int kPixels, bool kFull>
CPUACCEL_INLINE void pixel_tile(const PixelRow& row, int64_t ow, int64_t kw_begin, int64_t kw_end,
                                int64_t c, int64_t lanes) {
  const auto& s = row.call->shape;
  const auto load = [&](const float* at) {
    return kFull ? Vector::load(at) : Vector::load(at, lanes);
  };
  typename Vector::Type sums[kPixels];
  const auto bias = row.call->bias != nullptr ? load(row.call->bias + c) : Vector::all(0.0f);
  for (int p = 0; p < kPixels; ++p) {
    sums[p] = bias;
  }
  const int64_t iw = ow * s.SW - s.PW;
  for (int64_t kh = row.kh_begin; kh < row.kh_end; ++kh) {
    const float* line = row.image + (row.ih + kh * s.DH) * s.IW * s.C + c;
    const float* weights = row.call->weights + kh * s.KW * s.C + c;
    for (int64_t kw = kw_begin; kw < kw_end; ++kw) {
      const auto weight = load(weights + kw * s.C);
      const float* taps = line + (iw + kw * s.DW) * s.C;
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) {
        sums[p] = Vector::multiply_add(load(taps + p * s.SW * s.C), weight, sums[p]);
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) {
    float* dst = row.dst + (ow + p) * s.C + c;
    if constexpr (kFull) {
      Vector::store(dst, sums[p]);
    } else {
      Vector::store(dst, sums[p], lanes);
    }
  }
}

// Two full vectors of channels of kPixels results with all columns inside: a column is loaded once
// for all results that see it, and the weights of a row stay in registers.
template <typename Vector, int kPixels, int kK, int kStride>
CPUACCEL_INLINE void square_tile(const PixelRow& row, int64_t ow, int64_t c) {
  constexpr int64_t kWidth = Vector::kWidth;
  const int64_t C = row.call->shape.C;
  const float* bias = row.call->bias;
  typename Vector::Type sums[kPixels][2];
  for (int p = 0; p < kPixels; ++p) {
    for (int i = 0; i < 2; ++i) {
      sums[p][i] = bias != nullptr ? Vector::load(bias + c + i * kWidth) : Vector::all(0.0f);
    }
  }
  const float* line =
      row.image +
      ((row.ih + row.kh_begin) * row.call->shape.IW + ow * kStride - row.call->shape.PW) * C + c;
  const float* taps = row.call->weights + row.kh_begin * kK * C + c;
  for (int64_t kh = row.kh_begin; kh < row.kh_end; ++kh) {
    typename Vector::Type weights[kK][2];
    for (int kw = 0; kw < kK; ++kw) {
      weights[kw][0] = Vector::load(taps + kw * C);
      weights[kw][1] = Vector::load(taps + kw * C + kWidth);
    }
    const float* column = line;
#pragma GCC unroll 16
    for (int x = 0; x < (kPixels - 1) * kStride + kK; ++x) {
      const auto low = Vector::load(column), high = Vector::load(column + kWidth);
      column += C;
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) {
        const int kw = x - p * kStride;
        if (kw >= 0 && kw < kK) {
          sums[p][0] = Vector::multiply_add(low, weights[kw][0], sums[p][0]);
          sums[p][1] = Vector::multiply_add(high, weights[kw][1], sums[p][1]);
        }
      }
    }
    line += row.call->shape.IW * C;
    taps += kK * C;
  }
  for (int p = 0; p < kPixels; ++p) {
    float* dst = row.dst + (ow + p) * C + c;
    Vector::store(dst, sums[p][0]);
    Vector::store(dst + kWidth, sums[p][1]);
  }
}

// Whether all taps of results [ow, ow + count) are inside.
CPUACCEL_INLINE bool interior(const Conv2dShape& s, int64_t ow, int64_t count) {
  return ow * s.SW >= s.PW && (ow + count - 1) * s.SW - s.PW + (s.KW - 1) * s.DW < s.IW;
}

// Up to two vectors of channels of one result, or of kPixels.
template <typename Vector, int kPixels>
CPUACCEL_INLINE void any_tile_of_pixels(const PixelRow& row, int64_t ow, int64_t c, int64_t lanes) {
  const auto& s = row.call->shape;
  int64_t begin = 0, end = s.KW;
  if constexpr (kPixels == 1) {
    inside(ow * s.SW - s.PW, s.DW, s.KW, s.IW, begin, end);
  }
  for (; lanes >= Vector::kWidth; lanes -= Vector::kWidth, c += Vector::kWidth) {
    pixel_tile<Vector, kPixels, true>(row, ow, begin, end, c, Vector::kWidth);
  }
  if (lanes > 0) {
    pixel_tile<Vector, kPixels, false>(row, ow, begin, end, c, lanes);
  }
}

struct AnyTaps {};
template <int kSize, int kStep>
struct SquareTaps {
  static constexpr int kK = kSize, kStride = kStep;
};

// Channels in blocks of two vectors, a line of memory or two: so much of a few rows stays in L1.
template <typename Vector, typename Taps>
void pixel_rows(const DwconvF32Call& call, int64_t begin, int64_t end) {
  constexpr int kPixels = 4;
  constexpr int64_t kBlock = 2 * Vector::kWidth;
  const auto& s = call.shape;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t n = unit / s.OH, oh = unit % s.OH;
    PixelRow row{
        &call, call.src + n * s.IH * s.IW * s.C, call.dst + unit * s.OW * s.C, oh * s.SH - s.PH, 0,
        0};
    inside(row.ih, s.DH, s.KH, s.IH, row.kh_begin, row.kh_end);
    for (int64_t c = 0; c < s.C; c += kBlock) {
      const int64_t lanes = s.C - c < kBlock ? s.C - c : kBlock;
      for (int64_t ow = 0; ow < s.OW;) {
        if (ow + kPixels > s.OW || !interior(s, ow, kPixels)) {
          any_tile_of_pixels<Vector, 1>(row, ow, c, lanes);
          ++ow;
          continue;
        }
        if constexpr (requires { Taps::kK; }) {
          if (lanes == kBlock) {
            square_tile<Vector, kPixels, Taps::kK, Taps::kStride>(row, ow, c);
            ow += kPixels;
            continue;
          }
        }
        any_tile_of_pixels<Vector, kPixels>(row, ow, c, lanes);
        ow += kPixels;
      }
    }
  }
}

template <typename Vector>
void pixels(const DwconvF32Call& call, int64_t begin, int64_t end) {
  const auto& s = call.shape;
  const bool square = s.KH == 3 && s.KW == 3 && s.SH == s.SW && s.DH == 1 && s.DW == 1;
  if (square && s.SW == 1) {
    pixel_rows<Vector, SquareTaps<3, 1>>(call, begin, end);
  } else if (square && s.SW == 2) {
    pixel_rows<Vector, SquareTaps<3, 2>>(call, begin, end);
  } else {
    pixel_rows<Vector, AnyTaps>(call, begin, end);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
