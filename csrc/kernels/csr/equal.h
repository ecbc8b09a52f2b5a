// Lane-wise equality as numbers, 1 or 0, for any vector class (csr/scalar.h).
#pragma once

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// 1 in the lanes where a == b, 0 in the others and so if either is NaN.
template <typename V>
CPUACCEL_INLINE typename V::Vector graph_equal(typename V::Vector a, typename V::Vector b) {
  return V::select(V::equal(a, b), V::set1(1), V::set1(0));
}

// The same, but `of_nan` in the lanes where a is NaN.
template <typename V>
CPUACCEL_INLINE typename V::Vector graph_equal(typename V::Vector a, typename V::Vector b,
                                               typename V::Vector of_nan) {
  const auto infinity = V::set1(static_cast<typename V::Number>(__builtin_inff()));
  return V::select(V::larger_or_nan(a, infinity), of_nan, graph_equal<V>(a, b));
}

}  // namespace
}  // namespace cpuaccel::kernels
