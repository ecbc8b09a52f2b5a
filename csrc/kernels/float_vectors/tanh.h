// tanh of vectors of floats. Included by ISA sources.
#pragma once

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Lambert's continued fraction to its thirteenth term, x * over / under, divided by its constant
// term. It is off by at most 4e-8, at 9, where it passes 1, and is cut to [-1, 1]. A NaN stays: min
// and max return it if it is their second operand.
template <typename V>
CPUACCEL_INLINE typename V::Vector tanh_by_fraction(typename V::Vector x) {
  x = V::min(V::set1(9.0f), V::max(V::set1(-9.0f), x));
  const auto t = V::multiply(x, x);
  auto over = V::set1(1.264885555749117e-13f);
  for (const float factor : {5.179706350792634e-10f, 3.2286836253274086e-7f, 6.625258799171843e-5f,
                             5.2173913043478265e-3f, 0.14666666666666667f, 1.0f}) {
    over = V::fma(over, t, V::set1(factor));
  }
  auto under = V::set1(1.1510458557316966e-11f);
  for (const float factor : {1.5193805295658393e-8f, 5.230467473030402e-6f, 6.625258799171842e-4f,
                             3.188405797101449e-2f, 0.48f, 1.0f}) {
    under = V::fma(under, t, V::set1(factor));
  }
  const auto result = V::divide(V::multiply(x, over), under);
  return V::min(V::set1(1.0f), V::max(V::set1(-1.0f), result));
}

}  // namespace
}  // namespace cpuaccel::kernels
