// Separable max pooling in two passes, rows then columns, templated on classes of
// kernels/byte_vectors: V, and narrower ones for runs that V does not fill, if V has no masks.
// Included by ISA sources only.
#pragma once

#include "kernels/maxpool/maxpool.h"

namespace cpuaccel::kernels {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The smallest k >= 0 for which start + k * step >= bound.
inline int64_t first_at_least(int64_t start, int64_t step, int64_t bound) {
  return start >= bound ? 0 : (bound - start + step - 1) / step;
}

// The taps of one dimension that lie inside of the image.
struct Taps {
  int64_t first;  // position of the first in the image
  int64_t count;
};

inline Taps taps_inside(int64_t start, int64_t taps, int64_t dilation, int64_t size) {
  const int64_t begin = first_at_least(start, dilation, 0);
  const int64_t end = smaller(taps, first_at_least(start, dilation, size));
  return {start + begin * dilation, end > begin ? end - begin : 0};
}

// max_of for kVectors vectors. `kTaps` equals `taps` if that is known at compile time, else 0.
template <typename V, int kVectors, int kTaps>
inline void max_of_vectors(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst) {
  typename V::Vector largest[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    largest[v] = V::load(src + v * V::kBytes);
  }
  const int64_t count = kTaps == 0 ? taps : kTaps;
#pragma GCC unroll 4
  for (int64_t k = 1; k < count; ++k) {
    for (int v = 0; v < kVectors; ++v) {
      largest[v] = V::max8(largest[v], V::load(src + k * stride + v * V::kBytes));
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    V::store(dst + v * V::kBytes, largest[v]);
  }
}

// max_of for kBytes to 2 * kBytes bytes, by two vectors that may overlap.
template <typename V, int kTaps>
inline void max_of_two(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst,
                       int64_t bytes) {
  max_of_vectors<V, 1, kTaps>(src, stride, taps, dst);
  if (const int64_t last = bytes - V::kBytes; last > 0) {
    max_of_vectors<V, 1, kTaps>(src + last, stride, taps, dst + last);
  }
}

[[maybe_unused]] inline void max_of_bytes(const uint8_t* src, int64_t stride, int64_t taps,
                                          uint8_t* dst, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) {
    uint8_t largest = src[i];
    for (int64_t k = 1; k < taps; ++k) {
      const uint8_t value = src[k * stride + i];
      largest = value > largest ? value : largest;
    }
    dst[i] = largest;
  }
}

// max_of for fewer bytes than V has.
template <int kTaps, typename V>
inline void max_of_few(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst,
                       int64_t bytes) {
  const auto m = V::mask(bytes);
  auto largest = V::load(src, m);
  for (int64_t k = 1; k < taps; ++k) {
    src += stride;
    largest = V::max8(largest, V::load(src, m));
  }
  V::store(dst, largest, m);
}

template <int kTaps, typename V, typename Narrower, typename... Others>
inline void max_of_few(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst,
                       int64_t bytes) {
  if (bytes >= Narrower::kBytes) {
    max_of_two<Narrower, kTaps>(src, stride, taps, dst, bytes);
  } else if constexpr (sizeof...(Others) > 0) {
    max_of_few<kTaps, Narrower, Others...>(src, stride, taps, dst, bytes);
  } else {
    max_of_bytes(src, stride, taps, dst, bytes);
  }
}

template <int kTaps, typename V, typename... Narrower>
inline void max_of_taps(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst,
                        int64_t bytes) {
  constexpr int64_t kBytes = V::kBytes;
  int64_t i = 0;
  for (; i + 4 * kBytes <= bytes; i += 4 * kBytes) {
    max_of_vectors<V, 4, kTaps>(src + i, stride, taps, dst + i);
  }
  for (; i + kBytes <= bytes; i += kBytes) {
    max_of_vectors<V, 1, kTaps>(src + i, stride, taps, dst + i);
  }
  if (i == bytes) {
    return;
  }
  if (bytes > kBytes) {  // computes some bytes twice, which is quicker than a narrower loop
    i = bytes - kBytes;
    max_of_vectors<V, 1, kTaps>(src + i, stride, taps, dst + i);
    return;
  }
  max_of_few<kTaps, V, Narrower...>(src, stride, taps, dst, bytes);
}

// dst[i] = max over k < taps of src[k * stride + i], for i < bytes; taps >= 1.
template <typename V, typename... Narrower>
inline void max_of(const uint8_t* src, int64_t stride, int64_t taps, uint8_t* dst, int64_t bytes) {
  switch (taps) {  // 2x2 and 3x3 windows are the most common
    case 2:
      return max_of_taps<2, V, Narrower...>(src, stride, taps, dst, bytes);
    case 3:
      return max_of_taps<3, V, Narrower...>(src, stride, taps, dst, bytes);
    default:
      return max_of_taps<0, V, Narrower...>(src, stride, taps, dst, bytes);
  }
}

template <typename V, typename... Narrower>
void maxpool_separable(const MaxpoolShape& shape, const uint8_t* image, int64_t oh,
                       uint8_t* dst_row, uint8_t* scratch) {
  const int64_t C = shape.C;
  const int64_t row_bytes = shape.W * C;
  const Taps rows = taps_inside(oh * shape.SH - shape.PH, shape.KH, shape.DH, shape.H);
  if (rows.count == 0) {
    for (int64_t i = 0; i < shape.OW * C; ++i) {
      dst_row[i] = 0;
    }
    return;
  }
  const uint8_t* columns = image + rows.first * row_bytes;
  if (rows.count > 1) {
    max_of<V, Narrower...>(columns, shape.DH * row_bytes, rows.count, scratch, row_bytes);
    columns = scratch;
  }
  const auto one = [&](int64_t ow) {
    const Taps taps = taps_inside(ow * shape.SW - shape.PW, shape.KW, shape.DW, shape.W);
    uint8_t* dst = dst_row + ow * C;
    if (taps.count == 0) {
      for (int64_t c = 0; c < C; ++c) {
        dst[c] = 0;
      }
      return;
    }
    max_of<V, Narrower...>(columns + taps.first * C, shape.DW * C, taps.count, dst, C);
  };
  // Results [begin, end) have all their taps inside of the image.
  const int64_t reach = shape.W + shape.PW - (shape.KW - 1) * shape.DW;
  const int64_t begin = smaller(shape.OW, first_at_least(0, shape.SW, shape.PW));
  const int64_t end = smaller(shape.OW, first_at_least(0, shape.SW, reach));
  for (int64_t ow = 0; ow < begin; ++ow) {
    one(ow);
  }
  if (begin < end && shape.SW == 1) {  // taps of neighboring windows are adjacent: one run of bytes
    max_of<V, Narrower...>(columns + (begin - shape.PW) * C, shape.DW * C, shape.KW,
                           dst_row + begin * C, (end - begin) * C);
  } else {
    for (int64_t ow = begin; ow < end; ++ow) {
      max_of<V, Narrower...>(columns + (ow * shape.SW - shape.PW) * C, shape.DW * C, shape.KW,
                             dst_row + ow * C, C);
    }
  }
  for (int64_t ow = end > begin ? end : begin; ow < shape.OW; ++ow) {
    one(ow);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
