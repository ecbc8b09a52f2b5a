// dwconv_f32 for channels last: a vector is successive channels of a pixel. Included by ISA
// sources.
#pragma once

#include "kernels/dwconv_f32/dwconv_f32.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// What a row of results reads, and which of its tap rows are inside of the image.
struct PixelRow {
  const DwconvF32Call* call;
  const float* image;
  float* dst;
  int64_t ih;                // image row of tap 0, may be outside
  int64_t kh_begin, kh_end;  // taps inside of the image
};

// The taps [begin, end) of `taps` that are inside of `size`, with tap 0 at `first`.
CPUACCEL_INLINE void inside(int64_t first, int64_t dilation, int64_t taps, int64_t size,
                            int64_t& begin, int64_t& end) {
  begin = first >= 0 ? 0 : (-first + dilation - 1) / dilation;
  end = first >= size ? 0 : (size - first + dilation - 1) / dilation;
  end = end < taps ? end : taps;
  begin = begin < end ? begin : end;
}

// A vector of channels of kPixels successive results. Only the taps [kw_begin, kw_end) of each row
// are inside of the image. kFull: all lanes are channels.
template <typename V, int kPixels, bool kFull>
CPUACCEL_INLINE void pixel_tile(const PixelRow& row, int64_t ow, int64_t kw_begin, int64_t kw_end,
                                int64_t c, int64_t lanes) {
  const auto& s = row.call->shape;
  const auto load = [&](const float* at) { return kFull ? V::load(at) : V::load_first(at, lanes); };
  typename V::Vector sums[kPixels];
  const auto bias = row.call->bias != nullptr ? load(row.call->bias + c) : V::set1(0.0f);
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
        sums[p] = V::fma(load(taps + p * s.SW * s.C), weight, sums[p]);
      }
    }
  }
  for (int p = 0; p < kPixels; ++p) {
    float* dst = row.dst + (ow + p) * s.C + c;
    if constexpr (kFull) {
      V::store(dst, sums[p]);
    } else {
      V::store_first(dst, sums[p], lanes);
    }
  }
}

template <typename V, int kPixels>
CPUACCEL_INLINE void all_channels(const PixelRow& row, int64_t ow) {
  const auto& s = row.call->shape;
  int64_t kw_begin = 0, kw_end = s.KW;
  if constexpr (kPixels == 1) {
    inside(ow * s.SW - s.PW, s.DW, s.KW, s.IW, kw_begin, kw_end);
  }
  int64_t c = 0;
  for (; c + V::kLanes <= s.C; c += V::kLanes) {
    pixel_tile<V, kPixels, true>(row, ow, kw_begin, kw_end, c, V::kLanes);
  }
  if (c < s.C) {
    pixel_tile<V, kPixels, false>(row, ow, kw_begin, kw_end, c, s.C - c);
  }
}

// Whether all taps of results [ow, ow + count) are inside of the image.
CPUACCEL_INLINE bool interior(const Conv2dShape& s, int64_t ow, int64_t count) {
  return ow * s.SW >= s.PW && (ow + count - 1) * s.SW - s.PW + (s.KW - 1) * s.DW < s.IW;
}

template <typename V>
void pixel_rows(const DwconvF32Call& call, int64_t begin, int64_t end) {
  constexpr int kPixels = 4;
  const auto& s = call.shape;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t n = unit / s.OH, oh = unit % s.OH;
    PixelRow row{
        &call, call.src + n * s.IH * s.IW * s.C, call.dst + unit * s.OW * s.C, oh * s.SH - s.PH, 0,
        0};
    inside(row.ih, s.DH, s.KH, s.IH, row.kh_begin, row.kh_end);
    for (int64_t ow = 0; ow < s.OW;) {
      if (ow + kPixels <= s.OW && interior(s, ow, kPixels)) {
        all_channels<V, kPixels>(row, ow);
        ow += kPixels;
      } else {
        all_channels<V, 1>(row, ow);
        ++ow;
      }
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
