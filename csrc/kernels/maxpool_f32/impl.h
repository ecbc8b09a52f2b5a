// Loops of the maxpool_f32 kernels, templated on a vector type V. They compute V::kLanes windows of
// a row at a time for strides 1 and 2, if all their columns are inside of the image, and the other
// windows one by one. Included by ISA files.
//
// V provides:
//   kLanes
//   taps<kStride>(src): src[0], src[kStride] and so on; reads nothing past the last of them
//   places<kStride>(at): the numbers at, at + kStride and so on
//   Largest: the running maximum of taps() and its place, updated as window() does it
#pragma once

#include "kernels/inline.h"
#include "kernels/maxpool_f32/window.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, int kStride>
CPUACCEL_INLINE void windows(const MaxpoolF32Shape& s, const float* src, const Taps& rows,
                             int64_t column, float* dst, int64_t* indices) {
  typename V::Largest largest{V::set1(-__builtin_inff()),
                              V::template places<kStride>(rows.first * s.W + column)};
  for (int64_t h = rows.first; h < rows.end; h += rows.step) {
    for (int64_t kw = 0; kw < s.KW; ++kw) {
      const int64_t at = h * s.W + column + kw * s.DW;
      largest.add(V::template taps<kStride>(src + at), V::template places<kStride>(at));
    }
  }
  largest.store(dst, indices);
}

template <typename V, int kStride>
void plane(const MaxpoolF32Shape& s, const float* src, float* dst, int64_t* indices) {
  // Results [first, end) of a row have all their columns inside of the image.
  const int64_t first = (s.PW + kStride - 1) / kStride;
  const int64_t room = s.W + s.PW - (s.KW - 1) * s.DW - 1;
  const int64_t last = room < 0 ? 0 : room / kStride + 1;
  const int64_t end = last < s.OW ? last : s.OW;
  for (int64_t oh = 0; oh < s.OH; ++oh, dst += s.OW, indices += s.OW) {
    const Taps rows = rows_of(s, oh);
    const bool vectors = end - first >= V::kLanes;
    for (int64_t ow = 0; ow < s.OW; ++ow) {
      if (vectors && ow == first) {
        for (; ow < end; ow += V::kLanes) {  // the last vector may overlap the one before
          const int64_t at = ow + V::kLanes <= end ? ow : end - V::kLanes;
          windows<V, kStride>(s, src, rows, at * kStride - s.PW, dst + at, indices + at);
        }
        ow = end - 1;
        continue;
      }
      window(s, src, rows, columns_of(s, ow), dst[ow], indices[ow]);
    }
  }
}

template <typename V>
void maxpool_f32_by(const MaxpoolF32Shape& s, const float* src, float* dst, int64_t* indices) {
  if (s.SW == 1) {
    plane<V, 1>(s, src, dst, indices);
  } else if (s.SW == 2) {
    plane<V, 2>(s, src, dst, indices);
  } else {
    maxpool_f32_ref(s, src, dst, indices);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
