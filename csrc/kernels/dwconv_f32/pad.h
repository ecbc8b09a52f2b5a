// Copies rows of src for planes.h: padded, with columns sorted by stride.
#pragma once

#include "kernels/dwconv_f32/dwconv_f32.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// GCC vector types, which any architecture can compile.
using Four [[gnu::vector_size(16)]] = float;
using Eight [[gnu::vector_size(32)]] = float;

// Unaligned loads and stores.
template <typename Vector>
CPUACCEL_INLINE Vector load(const float* src) {
  Vector v;
  __builtin_memcpy(&v, src, sizeof(v));
  return v;
}
template <typename Vector>
CPUACCEL_INLINE void store(float* dst, const Vector& v) {
  __builtin_memcpy(dst, &v, sizeof(v));
}

// Copies by overlapping vectors: rows are short, and a call of memcpy would take long.
CPUACCEL_INLINE void copy_row(const float* src, int64_t count, float* dst) {
  if (count >= 8) {
    for (int64_t i = 0; i < count - 8; i += 8) {
      store(dst + i, load<Eight>(src + i));
    }
    store(dst + count - 8, load<Eight>(src + count - 8));
  } else if (count >= 4) {
    const Four last = load<Four>(src + count - 4);
    store(dst, load<Four>(src));
    store(dst + count - 4, last);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = src[i];
    }
  }
}

CPUACCEL_INLINE void split_eight(const float* src, float* even, float* odd) {
  const Four low = load<Four>(src), high = load<Four>(src + 4);
  store(even, __builtin_shufflevector(low, high, 0, 2, 4, 6));
  store(odd, __builtin_shufflevector(low, high, 1, 3, 5, 7));
}

// Copies floats 0, 2, 4 ... to `even` and 1, 3, 5 ... to `odd`.
CPUACCEL_INLINE void split_row(const float* src, int64_t count, float* even, float* odd) {
  int64_t done = count & ~int64_t{7};
  for (int64_t i = 0; i < done; i += 8) {
    split_eight(src + i, even + i / 2, odd + i / 2);
  }
  if (count >= 8) {
    const int64_t last = (count - 8) & ~int64_t{1};  // leaves at most one float
    split_eight(src + last, even + last / 2, odd + last / 2);
    done = last + 8;
  }
  for (; done + 1 < count; done += 2) {
    even[done / 2] = src[done];
    odd[done / 2] = src[done + 1];
  }
  if (done < count) {
    even[done / 2] = src[done];
  }
}

CPUACCEL_INLINE void pad_row(const Conv2dShape& s, const DwconvF32Strip& strip, const float* src,
                             float* dst) {
  // Columns beyond the last one that a result sees are not copied.
  const int64_t room = strip.pitch - s.PW;
  const int64_t count = s.IW < room ? s.IW : room;
  if (count <= 0) {
    return;
  }
  if (s.SW == 1) {
    copy_row(src, count, dst + s.PW);
  } else if (s.SW == 2) {
    float* even = dst + s.PW % 2 * strip.phase + s.PW / 2;
    float* odd = dst + (s.PW + 1) % 2 * strip.phase + (s.PW + 1) / 2;
    split_row(src, count, even, odd);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t column = i + s.PW;
      dst[column % s.SW * strip.phase + column / s.SW] = src[i];
    }
  }
}

CPUACCEL_INLINE void zero(float* dst, int64_t count) {
  for (int64_t i = 0; i < count; i += 8) {  // phases are multiples of 8 floats
    store(dst + i, Eight{});
  }
}

// Copies `strip.src_rows` rows of a plane, from row `first` on, which may be negative. The padding
// columns are zeros already.
inline void pad_strip(const Conv2dShape& s, const DwconvF32Strip& strip, const float* plane,
                      int64_t first, float* padded) {
  for (int64_t row = 0; row < strip.src_rows; ++row) {
    float* dst = padded + row * strip.pitch;
    const int64_t ih = first + row;
    if (ih < 0 || ih >= s.IH) {
      zero(dst, strip.pitch);
    } else {
      pad_row(s, strip, plane + ih * s.IW, dst);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
