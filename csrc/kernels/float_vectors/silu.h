// silu, x / (1 + exp(-x)), on vectors of floats. Included by ISA sources.
#pragma once

#include "kernels/float_vectors/exp.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
CPUACCEL_INLINE typename V::Vector silu(typename V::Vector x) {
  return V::divide(x, V::add(V::set1(1.0f), exp_negative<V>(x)));
}

}  // namespace
}  // namespace cpuaccel::kernels
