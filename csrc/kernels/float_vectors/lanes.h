// Maximum and sum over the lanes of a vector of floats. Included by ISA sources.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Combines the lanes by halves, in the same order in every run. V's own shuffles are used if it has
// any: a row of a softmax waits for its maximum, which takes as long as its exponentials through
// memory.
template <typename V, typename Combine>
CPUACCEL_INLINE float across_lanes(typename V::Vector v, Combine combine) {
  float lanes[V::kLanes];
  V::store(lanes, v);
  for (int64_t width = V::kLanes / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) {
      lanes[i] = combine(lanes[i], lanes[i + width]);
    }
  }
  return lanes[0];
}

template <typename V>
CPUACCEL_INLINE float largest_lane(typename V::Vector v) {
  if constexpr (requires { V::largest_lane(v); }) {
    return V::largest_lane(v);
  } else {
    return across_lanes<V>(v, [](float a, float b) { return a > b ? a : b; });
  }
}

template <typename V>
CPUACCEL_INLINE float sum_of_lanes(typename V::Vector v) {
  if constexpr (requires { V::sum_of_lanes(v); }) {
    return V::sum_of_lanes(v);
  } else {
    return across_lanes<V>(v, [](float a, float b) { return a + b; });
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
