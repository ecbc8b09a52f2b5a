// Rotary position embedding of one head, templated on the vector type. Included by ISA files.
#pragma once

#include <cstdint>

#include "kernels/rotary/rotary.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
void rotary_row(const RotaryRow& row) {
  const int64_t half = row.half;
  const float *low = row.src, *high = row.src + half;
  int64_t i = 0;
  for (; i + V::kLanes <= half; i += V::kLanes) {
    const auto a = V::load(low + i), b = V::load(high + i);
    const auto from_b = V::negative(V::multiply(b, V::load(row.sin + i)));
    const auto from_a = V::multiply(a, V::load(row.sin + half + i));
    V::store(row.dst + i, V::fma(a, V::load(row.cos + i), from_b));
    V::store(row.dst + half + i, V::fma(b, V::load(row.cos + half + i), from_a));
  }
  for (; i < half; ++i) {
    const float a = low[i], b = high[i];
    row.dst[i] = a * row.cos[i] - b * row.sin[i];
    row.dst[half + i] = b * row.cos[half + i] + a * row.sin[half + i];
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
