// Where a tile's sums begin. Included by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// The vector at from[index], of those of its lanes that a mask says; null: zeros. A function, not a
// lambda: that would have the loop's index in memory, and the sums with it.
template <typename V, typename... Mask>
CPUACCEL_INLINE typename V::Vector start_of(const float* from, int64_t index, Mask... mask) {
  return from != nullptr ? V::load(from + index, mask...) : V::zero();
}

}  // namespace
}  // namespace cpuaccel::kernels
