// What each loop of scatter does to a number.
#pragma once

#include <cstdint>

#include "kernels/csr/equal.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

enum class ScatterLoop { sum, product, largest, ties };

// What a number of dst becomes by a number of src, for a vector of both.
template <typename V, ScatterLoop kLoop>
struct ScatterStep {
  using Number = typename V::Number;
  using Vector = typename V::Vector;

  Number sign;  // -1 for amin, which is the largest of what is negated
  Number nan_ties;

  // `value` is for ties only.
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
