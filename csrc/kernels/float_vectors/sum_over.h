// Sums over the elements of a row, in several vectors at a time. Included by ISA sources.
#pragma once

#include <cstdint>

#include "kernels/float_vectors/lanes.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Sums over `count` elements: step(i, sum) adds the vector at i, last(i) returns the value of one
// element behind the whole vectors.
template <typename V, typename Step, typename Last>
CPUACCEL_INLINE float sum_over(int64_t count, const Step& step, const Last& last) {
  constexpr int kSums = 4;  // enough to hide the latency of an addition
  typename V::Vector sums[kSums];
  CPUACCEL_UNROLL
  for (int s = 0; s < kSums; ++s) {
    sums[s] = V::set1(0.0f);
  }
  int64_t i = 0;
  for (; i + kSums * V::kLanes <= count; i += kSums * V::kLanes) {
    CPUACCEL_UNROLL
    for (int s = 0; s < kSums; ++s) {
      sums[s] = step(i + s * V::kLanes, sums[s]);
    }
  }
  for (; i + V::kLanes <= count; i += V::kLanes) {
    sums[0] = step(i, sums[0]);
  }
  float total = sum_of_lanes<V>(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3])));
  for (; i < count; ++i) {
    total += last(i);
  }
  return total;
}

}  // namespace
}  // namespace cpuaccel::kernels
