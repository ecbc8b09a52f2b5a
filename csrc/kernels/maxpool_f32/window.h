// Max pooling of one window of floats: the reference code, which ISA files also use at the borders.
// It is in an anonymous namespace so that each ISA file compiles its own copy.
#pragma once

#include "kernels/inline.h"
#include "kernels/maxpool_f32/maxpool_f32.h"

namespace cpuaccel::kernels {
namespace {

// The taps of a window that lie inside of the image, in one dimension.
struct Taps {
  int64_t first, end, step;  // rows or columns of the image
};

CPUACCEL_INLINE Taps taps_inside(int64_t first, int64_t count, int64_t step, int64_t size) {
  const int64_t end = first + (count - 1) * step + 1;
  return {first >= 0 ? first : first + (-first + step - 1) / step * step, end < size ? end : size,
          step};
}

CPUACCEL_INLINE void window(const MaxpoolF32Shape& s, const float* src, const Taps& rows,
                            const Taps& columns, float& dst, int64_t& index) {
  float largest = -__builtin_inff();
  int64_t place = rows.first * s.W + columns.first;
  for (int64_t h = rows.first; h < rows.end; h += rows.step) {
    for (int64_t w = columns.first; w < columns.end; w += columns.step) {
      const float value = src[h * s.W + w];
      if (value > largest || __builtin_isnan(value)) {
        largest = value;
        place = h * s.W + w;
      }
    }
  }
  dst = largest;
  index = place;
}

CPUACCEL_INLINE Taps columns_of(const MaxpoolF32Shape& s, int64_t ow) {
  return taps_inside(ow * s.SW - s.PW, s.KW, s.DW, s.W);
}
CPUACCEL_INLINE Taps rows_of(const MaxpoolF32Shape& s, int64_t oh) {
  return taps_inside(oh * s.SH - s.PH, s.KH, s.DH, s.H);
}

}  // namespace
}  // namespace cpuaccel::kernels
