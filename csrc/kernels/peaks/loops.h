// Loops of the peak measurements. Included by ISA sources only.
#pragma once

#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {
namespace {

// Runs sum = multiply(sum) for kSums independent sums, enough to hide the latency of the
// instruction. `products` is the number of products of one multiply(). Returns the number of
// products done.
template <int kSums, typename Sum, typename Multiply>
int64_t repeat(int64_t iterations, int64_t products, Multiply multiply) {
  Sum sums[kSums] = {};
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 20
    for (auto& sum : sums) {
      sum = multiply(sum);
      CPUACCEL_OPAQUE(CPUACCEL_VECTOR, sum);
    }
  }
  return iterations * kSums * products;
}

template <typename Vector>
Vector opaque(Vector value) {
  CPUACCEL_OPAQUE(CPUACCEL_VECTOR, value);
  return value;
}

// V is a class of kernels/byte_vectors.
template <typename V>
void read_by(const std::byte* src, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 32
    for (int64_t part = 0; part < 512; part += V::kBytes) {
      const auto value = V::load(reinterpret_cast<const uint8_t*>(src + i + part));
      CPUACCEL_USED(CPUACCEL_VECTOR, value);
    }
  }
}

template <typename V>
void copy_by(const std::byte* src, std::byte* dst, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 32
    for (int64_t part = 0; part < 512; part += V::kBytes) {
      const auto value = opaque(V::load(reinterpret_cast<const uint8_t*>(src + i + part)));
      V::store(reinterpret_cast<uint8_t*>(dst + i + part), value);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
