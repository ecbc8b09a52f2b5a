// Loops of the elementwise kernels, templated on the vector type. Included by ISA files.
#pragma once

#include <cstdint>

#include "kernels/elementwise/elementwise.h"
#include "kernels/float_vectors/sigmoid.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Lambert's continued fraction to its ninth term. It passes 1 at 6.3, by at most 7e-6 up to there,
// and is cut to [-1, 1]. A NaN stays: min and max return it if it is their second operand.
template <typename V>
CPUACCEL_INLINE typename V::Vector tanh_by_fraction(typename V::Vector x) {
  x = V::min(V::set1(6.5f), V::max(V::set1(-6.5f), x));
  const auto t = V::multiply(x, x);
  auto over = V::add(t, V::set1(990.0f));
  for (const float factor : {135135.0f, 4729725.0f, 34459425.0f}) {
    over = V::fma(over, t, V::set1(factor));
  }
  auto under = V::set1(45.0f);
  for (const float factor : {13860.0f, 945945.0f, 16216200.0f, 34459425.0f}) {
    under = V::fma(under, t, V::set1(factor));
  }
  const auto result = V::divide(V::multiply(x, over), under);
  return V::min(V::set1(1.0f), V::max(V::set1(-1.0f), result));
}

template <typename V, ElementwiseOp kOp>
CPUACCEL_INLINE typename V::Vector elementwise_value(const ElementwiseRun& run,
                                                     typename V::Vector a, typename V::Vector b) {
  using enum ElementwiseOp;
  if constexpr (kOp == add) {
    return V::add(a, b);
  } else if constexpr (kOp == subtract) {
    return V::subtract(a, b);
  } else if constexpr (kOp == multiply) {
    return V::multiply(a, b);
  } else if constexpr (kOp == divide) {
    return V::divide(a, b);
  } else if constexpr (kOp == square) {
    return V::multiply(a, a);
  } else if constexpr (kOp == exp) {
    return exp_negative<V>(V::negative(a));
  } else if constexpr (kOp == sigmoid) {
    return cpuaccel::kernels::sigmoid<V>(a);
  } else if constexpr (kOp == tanh) {
    return tanh_by_fraction<V>(a);
  } else {
    return V::min(V::set1(run.high), V::max(V::set1(run.low), a));
  }
}

template <typename V, ElementwiseOp kOp>
void elementwise_loop(const ElementwiseRun& run) {
  int64_t i = 0;
  for (; i + V::kLanes <= run.count; i += V::kLanes) {
    V::store(run.dst + i, elementwise_value<V, kOp>(run, V::load(run.a + i), V::load(run.b + i)));
  }
  if (i < run.count) {
    const auto mask = V::mask(run.count - i);
    V::store(run.dst + i,
             elementwise_value<V, kOp>(run, V::load(run.a + i, mask), V::load(run.b + i, mask)),
             mask);
  }
}

template <typename V>
void elementwise_run(const ElementwiseRun& run) {
  using enum ElementwiseOp;
  switch (run.op) {
    case add:
      return elementwise_loop<V, add>(run);
    case subtract:
      return elementwise_loop<V, subtract>(run);
    case multiply:
      return elementwise_loop<V, multiply>(run);
    case divide:
      return elementwise_loop<V, divide>(run);
    case square:
      return elementwise_loop<V, square>(run);
    case exp:
      return elementwise_loop<V, exp>(run);
    case sigmoid:
      return elementwise_loop<V, sigmoid>(run);
    case tanh:
      return elementwise_loop<V, tanh>(run);
    case clamp:
      return elementwise_loop<V, clamp>(run);
    case activation:
      return;  // eltwise_f32 computes it
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
