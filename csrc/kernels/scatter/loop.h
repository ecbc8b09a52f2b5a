// What the loops over sorted and over unsorted entries share: the operation, tiles and dispatch by
// op.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/csr/equal.h"
#include "kernels/inline.h"
#include "kernels/scatter/scatter.h"

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

// Most vectors of a tile of columns. Each count is a template instance, so there are only as many
// as the op is worth. At least two, so that the last vector is full.
template <typename V, ScatterLoop kLoop>
constexpr int64_t most_scatter_vectors() {
  constexpr int64_t kWanted = kLoop == ScatterLoop::sum ? 8 : kLoop == ScatterLoop::product ? 2 : 4;
  return V::kMostVectors < kWanted ? V::kMostVectors : kWanted;
}

// Columns of the next tile of at most `most`, if `left` are left. Those after it fill a vector.
template <typename V>
CPUACCEL_INLINE int64_t scatter_tile_columns(int64_t left, int64_t most) {
  if (left <= most) {
    return left;
  }
  return left - most < V::kLanes ? most - V::kLanes : most;
}

// Offset of vector j of a tile's columns; the last one may overlap the one before.
template <typename V, int kVectors>
CPUACCEL_INLINE int64_t scatter_offset(int64_t columns, int j) {
  return j > 0 && j == kVectors - 1 ? columns - V::kLanes : j * V::kLanes;
}

template <ScatterLoop kLoop>
using ScatterLoopConstant = std::integral_constant<ScatterLoop, kLoop>;

// Calls body(ScatterLoopConstant) with the loop of `op`. Ties are only of types that are their own
// numbers.
template <typename V, typename Body>
void with_scatter_loop(ScatterOp op, const Body& body) {
  if (op == ScatterOp::sum) {
    body(ScatterLoopConstant<ScatterLoop::sum>{});
  } else if (op == ScatterOp::product) {
    body(ScatterLoopConstant<ScatterLoop::product>{});
  } else if (op != ScatterOp::ties) {
    body(ScatterLoopConstant<ScatterLoop::largest>{});
  } else if constexpr (std::is_same_v<typename V::Element, typename V::Number>) {
    body(ScatterLoopConstant<ScatterLoop::ties>{});
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
