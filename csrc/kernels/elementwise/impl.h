// Loops of the elementwise kernels, templated on the vector type. Included by ISA files.
#pragma once

#include <cstdint>

#include "kernels/elementwise/elementwise.h"
#include "kernels/float_vectors/sigmoid.h"
#include "kernels/float_vectors/tanh.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

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
