// exp of vectors of floats. Included by ISA sources.
//
// exp(t) = 2^n * exp(r) with n = round(t / ln 2), so |r| <= ln(2) / 2, where the Taylor polynomial
// of degree 7 is off by 6e-9.
#pragma once

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// exp(-x). Beyond the limits it is still infinity, or at most 2^-125 instead of 0. NaN stays.
template <typename V>
CPUACCEL_INLINE typename V::Vector exp_negative(typename V::Vector x) {
  auto t = V::negative(x);
  // min and max return a NaN if it is their second operand.
  t = V::min(V::set1(89.0f), V::max(V::set1(-87.0f), t));
  const auto n = V::round(V::multiply(t, V::set1(1.44269504f)));
  // ln 2 in two parts: n times the first needs no rounding.
  auto r = V::fma(n, V::set1(-0.693359375f), t);
  r = V::fma(n, V::set1(2.12194440e-4f), r);
  auto sum = V::set1(1.0f / 5040);
  for (const float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    sum = V::fma(sum, r, V::set1(factor));
  }
  return V::scale(sum, n);
}

constexpr float kMostBelow = 87.0f;

// exp(-x) for x >= 0. It is 0 if x > 87, so that no result is denormal. NaN stays.
template <typename V>
CPUACCEL_INLINE typename V::Vector weight_below(typename V::Vector x) {
  if constexpr (requires { V::power_up_to(x, x, kMostBelow); }) {
    return V::power_up_to(V::multiply(x, V::set1(-1.44269504f)), x, kMostBelow);
  } else {
    return V::zero_above(exp_negative<V>(x), x, V::set1(kMostBelow));
  }
}

// The same within 2^-13, for results that are rounded to bf16.
template <typename V>
CPUACCEL_INLINE typename V::Vector weight_below_bf16(typename V::Vector x) {
  return V::power_up_to_bf16(V::multiply(x, V::set1(-1.44269504f)), x, kMostBelow);
}

}  // namespace
}  // namespace cpuaccel::kernels
