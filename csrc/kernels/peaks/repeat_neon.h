// The loop of Arm's peaks. Included by ISA sources only.
#pragma once

#include <arm_neon.h>

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {
namespace {

// sum = multiply(sum) in turn for each of so many sums that four instructions a cycle hide a
// latency of five; `products` are those of one. Returns how many that were.
template <typename Sum, typename Multiply>
int64_t repeat(int64_t iterations, int64_t products, const Multiply& multiply) {
  constexpr int kSums = 20;
  Sum sums[kSums] = {};
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 20
    for (auto& sum : sums) {
      sum = multiply(sum);
      CPUACCEL_OPAQUE("w", sum);
    }
  }
  return iterations * kSums * products;
}

template <typename Vector>
Vector opaque(Vector value) {
  CPUACCEL_OPAQUE("w", value);
  return value;
}

}  // namespace
}  // namespace cpuaccel::kernels
