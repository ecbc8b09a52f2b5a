// sigmoid, 1 / (1 + exp(-x)), on vectors of floats. Included by ISA sources.
#pragma once

#include "kernels/float_vectors/exp.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
CPUACCEL_INLINE typename V::Vector sigmoid(typename V::Vector x) {
  const auto one = V::set1(1.0f);
  return V::divide(one, V::add(one, exp_negative<V>(x)));
}

}  // namespace
}  // namespace cpuaccel::kernels
