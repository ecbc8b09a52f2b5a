// dwconv_f32 for channels first: a vector is successive results of a row. Included by ISA sources.
#pragma once

#include "kernels/dwconv_f32/dwconv_f32.h"
#include "kernels/dwconv_f32/pad.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// A plane, or a strip of one.
struct Plane {
  const Conv2dShape* shape;
  const DwconvF32Strip* strip;
  const float* padded;   // at its first tap
  const float* weights;  // KH x KW
  float bias;
  float* dst;
  int64_t rows;

  // The offset from a result's first tap to tap (kh, kw).
  int64_t tap(int64_t kh, int64_t kw) const {
    const int64_t column = kw * shape->DW;
    return kh * shape->DH * strip->pitch + column % shape->SW * strip->phase + column / shape->SW;
  }
};

template <typename V>
CPUACCEL_INLINE void store_up_to(float* dst, typename V::Vector value, int64_t count) {
  if (count >= V::kLanes) {
    V::store(dst, value);
  } else {
    V::store_first(dst, value, count);
  }
}

// kRows rows times kColumns vectors of results, for a kernel of kK x kK taps without dilation.
template <typename V, int kK, int kStride, int kRows, int kColumns>
CPUACCEL_INLINE void tile(const Plane& plane, const int64_t (&offsets)[kK],
                          const typename V::Vector (&weights)[kK * kK], const float* src,
                          float* dst, int64_t count) {
  typename V::Vector sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int x = 0; x < kColumns; ++x) {
      sums[r][x] = V::set1(plane.bias);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < (kRows - 1) * kStride + kK; ++row) {
    const float* line = src + row * plane.strip->pitch;
#pragma GCC unroll 8
    for (int kw = 0; kw < kK; ++kw) {
      typename V::Vector taps[kColumns];
#pragma GCC unroll 4
      for (int x = 0; x < kColumns; ++x) {
        taps[x] = V::load(line + offsets[kw] + x * V::kLanes);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const int kh = row - r * kStride;
        if (kh >= 0 && kh < kK) {
#pragma GCC unroll 4
          for (int x = 0; x < kColumns; ++x) {
            sums[r][x] = V::fma(taps[x], weights[kh * kK + kw], sums[r][x]);
          }
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* line = dst + r * plane.shape->OW;
    for (int x = 0; x < kColumns - 1; ++x) {
      V::store(line + x * V::kLanes, sums[r][x]);
    }
    store_up_to<V>(line + (kColumns - 1) * V::kLanes, sums[r][kColumns - 1],
                   count - (kColumns - 1) * V::kLanes);
  }
}

// The last vector of a row may overlap the one before.
template <typename V, int kK, int kStride, int kRows, int kColumns>
CPUACCEL_INLINE void rows_of(const Plane& plane, const int64_t (&offsets)[kK],
                             const typename V::Vector (&weights)[kK * kK], const float* src,
                             float* dst) {
  const int64_t OW = plane.shape->OW;
  constexpr int64_t kSpan = kColumns * V::kLanes;
  int64_t ow = 0;
  if (OW >= kSpan) {
    for (; ow < OW; ow += kSpan) {
      const int64_t at = ow + kSpan <= OW ? ow : OW - kSpan;
      tile<V, kK, kStride, kRows, kColumns>(plane, offsets, weights, src + at, dst + at, kSpan);
    }
    return;
  }
  for (; ow < OW; ow += V::kLanes) {
    const bool overlap = OW >= V::kLanes && ow + V::kLanes > OW;
    const int64_t at = overlap ? OW - V::kLanes : ow;
    tile<V, kK, kStride, kRows, 1>(plane, offsets, weights, src + at, dst + at, OW - at);
  }
}

template <typename V, int kK, int kStride, int kRows, int kColumns>
void square(const Plane& plane) {
  int64_t offsets[kK];
  for (int kw = 0; kw < kK; ++kw) {
    offsets[kw] = plane.tap(0, kw);
  }
  typename V::Vector weights[kK * kK];
  for (int i = 0; i < kK * kK; ++i) {
    weights[i] = V::set1(plane.weights[i]);
  }
  const int64_t step = kStride * plane.strip->pitch;
  const auto group = [&]<int kGroup>(int64_t row) {
    rows_of<V, kK, kStride, kGroup, kColumns>(plane, offsets, weights, plane.padded + row * step,
                                              plane.dst + row * plane.shape->OW);
  };
  if (plane.rows >= kRows) {
    for (int64_t row = 0; row < plane.rows; row += kRows) {  // the last group may overlap as well
      group.template operator()<kRows>(row + kRows <= plane.rows ? row : plane.rows - kRows);
    }
  } else {
    for (int64_t row = 0; row < plane.rows; ++row) {
      group.template operator()<1>(row);
    }
  }
}

// For any kernel shape: kColumns vectors of one row at a time.
template <typename V, int kColumns>
CPUACCEL_INLINE void any_tile(const Plane& plane, const float* src, float* dst, int64_t count) {
  const auto& s = *plane.shape;
  typename V::Vector sums[kColumns];
  for (int x = 0; x < kColumns; ++x) {
    sums[x] = V::set1(plane.bias);
  }
  for (int64_t kh = 0; kh < s.KH; ++kh) {
    for (int64_t kw = 0; kw < s.KW; ++kw) {
      const auto weight = V::set1(plane.weights[kh * s.KW + kw]);
      const float* taps = src + plane.tap(kh, kw);
      for (int x = 0; x < kColumns; ++x) {
        sums[x] = V::fma(V::load(taps + x * V::kLanes), weight, sums[x]);
      }
    }
  }
  for (int x = 0; x < kColumns; ++x) {
    const int64_t at = x * V::kLanes;
    store_up_to<V>(dst + at, sums[x], count - at);
  }
}

template <typename V>
void any(const Plane& plane) {
  const auto& s = *plane.shape;
  constexpr int kColumns = 4;
  constexpr int64_t kSpan = kColumns * V::kLanes;
  for (int64_t row = 0; row < plane.rows; ++row) {
    const float* src = plane.padded + row * s.SH * plane.strip->pitch;
    float* dst = plane.dst + row * s.OW;
    int64_t ow = 0;
    for (; ow + kSpan <= s.OW; ow += kSpan) {
      any_tile<V, kColumns>(plane, src + ow, dst + ow, kSpan);
    }
    for (; ow < s.OW; ow += V::kLanes) {
      const bool overlap = s.OW >= V::kLanes && ow + V::kLanes > s.OW;
      const int64_t at = overlap ? s.OW - V::kLanes : ow;
      any_tile<V, 1>(plane, src + at, dst + at, s.OW - at);
    }
  }
}

// Two vectors of columns and four rows: each weight that does not stay in a register is used eight
// times, twice for each row.
template <typename V>
void one_strip(const Plane& plane) {
  const auto& s = *plane.shape;
  const bool plain = s.DH == 1 && s.DW == 1 && s.KH == s.KW && s.SH == s.SW;
  if (plain && s.KH == 3 && s.SH == 1) {
    square<V, 3, 1, 4, 1>(plane);
  } else if (plain && s.KH == 3 && s.SH == 2) {
    square<V, 3, 2, 2, 1>(plane);
  } else if (plain && s.KH == 5 && s.SH == 1) {
    // NEON has no memory operands: 25 weights and the sums must fit its 32 registers.
    constexpr int kRows = V::kLanes == 4 ? 2 : 4;
    square<V, 5, 1, kRows, 2>(plane);
  } else if (plain && s.KH == 5 && s.SH == 2) {
    square<V, 5, 2, 2, 2>(plane);
  } else {
    any<V>(plane);
  }
}

template <typename V>
void planes(const DwconvF32Call& call, const DwconvF32Strip& strip, int64_t begin, int64_t end,
            float* padded) {
  const auto& s = call.shape;
  const int64_t multiplier = s.OC / s.C;
  zero(padded, strip.src_rows * strip.pitch);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t n = unit / s.OC, c = unit % s.OC;
    const float* src = call.src + (n * s.C + c / multiplier) * s.IH * s.IW;
    Plane plane{&s,
                &strip,
                padded,
                call.weights + c * s.taps(),
                call.bias != nullptr ? call.bias[c] : 0.0f,
                nullptr,
                0};
    for (int64_t oh = 0; oh < s.OH; oh += strip.rows) {
      pad_strip(s, strip, src, oh * s.SH - s.PH, padded);
      plane.dst = call.dst + (unit * s.OH + oh) * s.OW;
      plane.rows = s.OH - oh < strip.rows ? s.OH - oh : strip.rows;
      one_strip<V>(plane);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
