// Activations of bf16 for any vector class of bf16 pairs. Included by ISA sources.
//
// Elements at even positions are the low halves of 32 bits, those at odd positions the high halves.
// Shifts extract a vector of each and put it back, so that no element changes its lane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/float_vectors/activations.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// 2^t within 2^-13.7: 2^n times a polynomial of r = t - n in [-1/2, 1/2], the best of degree 3 by
// Remez' algorithm. A vector class that splits t into n and r in one instruction has its own.
template <typename V>
CPUACCEL_INLINE typename V::Vector rough_power(typename V::Vector t) {
  if constexpr (requires { V::rough_power(t); }) {
    return V::rough_power(t);
  } else {
    t = V::min(V::set1(127.0f), V::max(V::set1(-126.0f), t));
    const auto n = V::round(t);
    const auto r = V::subtract(t, n);
    auto sum = V::set1(0.0551716691f);
    for (const float factor : {0.242611122f, 0.693260985f, 0.999928074f}) {
      sum = V::fma(sum, r, V::set1(factor));
    }
    return V::scale(sum, n);
  }
}

template <typename V>
CPUACCEL_INLINE typename V::Vector rough_divide(typename V::Vector a, typename V::Vector b) {
  if constexpr (requires { V::rough_divide(a, b); }) {
    return V::rough_divide(a, b);
  } else {
    return V::divide(a, b);
  }
}

template <typename V>
CPUACCEL_INLINE typename V::Vector rough_silu(typename V::Vector x) {
  const auto power = rough_power<V>(V::multiply(x, V::set1(-1.44269504f)));
  return rough_divide<V>(x, V::add(V::set1(1.0f), power));
}

template <typename V, Activation kActivation>
CPUACCEL_INLINE typename V::Vector activate_bf16(typename V::Vector x) {
  if constexpr (kActivation == Activation::silu) {
    return rough_silu<V>(x);
  } else {
    return activate<V, kActivation>(x);
  }
}

template <typename V, typename V::Vector (*kFunction)(typename V::Vector)>
CPUACCEL_INLINE void apply_to_pairs(uint16_t* values) {
  const auto pairs = V::load_pairs(values);
  V::store_pairs(values, kFunction(V::even(pairs)), kFunction(V::odd(pairs)));
}

template <typename V, typename V::Vector (*kFunction)(typename V::Vector)>
void bf16_loop(uint16_t* values, int64_t count) {
  constexpr int64_t kStep = 2 * V::kLanes;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    apply_to_pairs<V, kFunction>(values + i);
  }
  if (i < count) {
    uint16_t last[kStep] = {};
    std::copy(values + i, values + count, last);
    apply_to_pairs<V, kFunction>(last);
    std::copy(last, last + (count - i), values + i);
  }
}

template <typename V>
void apply_activation_bf16(Activation activation, uint16_t* values, int64_t count) {
  switch (activation) {
    case Activation::none:
      return;
#define CPUACCEL_ACTIVATION(name, ...) \
  case Activation::name:               \
    return bf16_loop<V, activate_bf16<V, Activation::name>>(values, count);
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
