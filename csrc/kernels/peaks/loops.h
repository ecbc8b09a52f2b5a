// Loop of the Arm peak measurements. Included by ISA sources only.
#pragma once

#include <arm_neon.h>

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {
namespace {

// Runs sum = multiply(sum) for 20 independent sums, enough for four instructions per cycle to hide
// a latency of five cycles. `products` is the number of products of one multiply(). Returns the
// number of products done.
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
