// The loop, for any vector of floats. Included by ISA files.
//
// exp(t) = 2^n * exp(r) with n = round(t / ln 2), so |r| <= ln(2) / 2, where Taylor's sum of degree
// 7 is off by 6e-9. Of t, what is beyond the limits gives 0 or infinity all the same.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
CPUACCEL_INLINE typename V::Vector silu(typename V::Vector x) {
  auto t = V::negative(x);
  t = V::min(V::max(t, V::set1(-87.0f)), V::set1(89.0f));
  const auto n = V::round(V::multiply(t, V::set1(1.44269504f)));
  // ln 2 in two parts: n times the first has no rounding.
  auto r = V::fma(n, V::set1(-0.693359375f), t);
  r = V::fma(n, V::set1(2.12194440e-4f), r);
  auto sum = V::set1(1.0f / 5040);
  for (const float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    sum = V::fma(sum, r, V::set1(factor));
  }
  return V::divide(x, V::add(V::set1(1.0f), V::scale(sum, n)));
}

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
