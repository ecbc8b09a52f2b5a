// Loop of the silu_f32 kernels, templated on the vector type. Included by ISA files.
#pragma once

#include <cstdint>

#include "kernels/float_vectors/silu.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
void silu_loop(const float* src, float* dst, int64_t count) {
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    V::store(dst + i, silu<V>(V::load(src + i)));
  }
  if (i < count) {
    float floats[V::kLanes] = {};
    for (int64_t j = i; j < count; ++j) {
      floats[j - i] = src[j];
    }
    V::store(floats, silu<V>(V::load(floats)));
    for (int64_t j = i; j < count; ++j) {
      dst[j] = floats[j - i];
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
