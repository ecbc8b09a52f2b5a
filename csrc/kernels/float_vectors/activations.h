// The activations of base/activations.inc on vectors of floats. Included by ISA sources.
#pragma once

#include "base/activation.h"
#include "kernels/float_vectors/gelu_tails.h"
#include "kernels/float_vectors/silu.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
CPUACCEL_INLINE typename V::Vector relu(typename V::Vector x) {
  return V::max(V::set1(0.0f), x);  // a NaN stays, being the second operand
}

template <typename V>
CPUACCEL_INLINE typename V::Vector hardswish(typename V::Vector x) {
  const auto gate = V::min(V::set1(6.0f), V::max(V::set1(0.0f), V::add(x, V::set1(3.0f))));
  return V::multiply(V::multiply(x, gate), V::set1(1.0f / 6.0f));
}

// silu by V::power, if V has it, which is faster than exp: off by some 2^-20 of the result if x is
// far below 0.
template <typename V>
CPUACCEL_INLINE typename V::Vector silu_by_power(typename V::Vector x) {
  if constexpr (requires { V::power(x); }) {
    const auto power = V::power(V::multiply(x, V::set1(-1.44269504f)));
    return V::divide(x, V::add(V::set1(1.0f), power));
  } else {
    return silu<V>(x);
  }
}

// gelu(x) = max(x, 0) - |x| * (1 - Phi(|x|)), with 1 - Phi(a) = exp(-a^2 / 2) * p(1 / (1 + c * a))
// within 7.5e-8: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. Beyond 12.5 it
// is 0; the product would be denormal, which takes a hundred times as long.
template <typename V>
CPUACCEL_INLINE typename V::Vector gelu_by_exp(typename V::Vector x) {
  const auto most = V::set1(12.5f);
  const auto magnitude = V::max(V::negative(x), x);
  const auto a = V::min(most, magnitude);
  const auto t =
      V::divide(V::set1(1.0f), V::fma(a, V::set1(0.3275911f * 0.70710678f), V::set1(1.0f)));
  auto p = V::set1(1.061405429f);
  for (const float factor : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f}) {
    p = V::fma(p, t, V::set1(factor));
  }
  p = V::multiply(V::multiply(p, t), V::set1(0.5f));
  const auto power = exp_negative<V>(V::multiply(V::multiply(a, a), V::set1(0.5f)));
  const auto tail = V::zero_above(V::multiply(p, power), magnitude, most);
  return V::subtract(relu<V>(x), V::multiply(a, tail));
}

template <typename V>
CPUACCEL_INLINE typename V::Vector gelu_tanh_by_exp(typename V::Vector x) {
  constexpr float kTwice = 1.5957691216f;  // 2 * sqrt(2 / pi)
  const auto cubic = V::fma(V::multiply(x, x), V::set1(0.044715f * kTwice), V::set1(kTwice));
  return V::divide(x, V::add(V::set1(1.0f), exp_negative<V>(V::multiply(x, cubic))));
}

template <typename V>
CPUACCEL_INLINE typename V::Vector gelu(typename V::Vector x) {
  if constexpr (PicksFromSixteen<V>) {
    return gelu_by_tail<V>(x, kGeluTail);
  } else {
    return gelu_by_exp<V>(x);
  }
}

template <typename V>
CPUACCEL_INLINE typename V::Vector gelu_tanh(typename V::Vector x) {
  if constexpr (PicksFromSixteen<V>) {
    return gelu_by_tail<V>(x, kGeluTanhTail);
  } else {
    return gelu_tanh_by_exp<V>(x);
  }
}

template <typename V, Activation kActivation>
CPUACCEL_INLINE typename V::Vector activate(typename V::Vector x) {
#define CPUACCEL_ACTIVATION(name, ...)             \
  if constexpr (kActivation == Activation::name) { \
    return name<V>(x);                             \
  }
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
}

}  // namespace
}  // namespace cpuaccel::kernels
