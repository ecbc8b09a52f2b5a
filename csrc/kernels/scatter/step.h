// The elementwise operation of each scatter loop.
#pragma once

#include <cstdint>

#include "kernels/csr/equal.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

enum class ScatterLoop { sum, product, largest, ties };

// New values of dst from old values and src, for vectors.
template <typename V, ScatterLoop kLoop>
struct ScatterStep {
  using Number = typename V::Number;
  using Vector = typename V::Vector;

  Number sign;  // -1 for amin, computed as the largest of negated values
  Number nan_ties;

  // `value` is only used for ties.
  CPUACCEL_INLINE Vector operator()(Vector before, Vector x, Vector value) const {
    if constexpr (kLoop == ScatterLoop::sum) {
      return V::add(before, x);
    } else if constexpr (kLoop == ScatterLoop::product) {
      return V::multiply(before, x);
    } else if constexpr (kLoop == ScatterLoop::largest) {
      const Vector s = V::set1(sign);
      return V::select(V::larger_or_nan(V::multiply(s, x), V::multiply(s, before)), x, before);
    } else {
      return V::add(before, graph_equal<V>(x, value, V::set1(nan_ties)));
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
