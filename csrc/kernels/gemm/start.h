// The start of a tile's sums, as vectors. Included by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

alignas(64) inline constexpr float kNoStart[kGemmMaxNr] = {};

// Replaces null pointers by zeros. With branches at each sum instead, GCC would not unroll so much
// code, and would keep the sums in memory.
CPUACCEL_INLINE GemmStart with_zeros(const GemmStart& from) {
  return {from.data != nullptr ? from.data : kNoStart, from.data != nullptr ? from.stride : 0,
          from.bias != nullptr ? from.bias : kNoStart};
}

// The vector of with_zeros() at row i from column j on; with a mask, only its lanes.
template <typename V, typename... Mask>
CPUACCEL_INLINE typename V::Vector start_of(const GemmStart& from, int64_t i, int64_t j,
                                            Mask... mask) {
  return V::add(V::load(from.data + i * from.stride + j, mask...), V::load(from.bias + j, mask...));
}

}  // namespace
}  // namespace cpuaccel::kernels
