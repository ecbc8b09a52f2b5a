// Loop of the clamp kernels, for any class V of kernels/byte_vectors. Included by ISA sources.
#pragma once

#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, int kVectors>
void clamp_by(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  using Vector = typename V::Vector;
  const Vector lower = V::set8(limits.low), upper = V::set8(limits.high);
  const Vector flipped = V::set8(limits.flipped_bits);
  const auto limited = [&](Vector bytes) {
    return V::bits_xor(V::min8(V::max8(V::bits_xor(bytes, flipped), lower), upper), flipped);
  };
  int64_t i = 0;
  for (; i + kVectors * V::kBytes <= count; i += kVectors * V::kBytes) {
    Vector bytes[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      bytes[v] = V::load(src + i + v * V::kBytes);
    }
    for (int v = 0; v < kVectors; ++v) {
      V::store(dst + i + v * V::kBytes, limited(bytes[v]));
    }
  }
  if constexpr (requires { V::mask(count); }) {
    if (i < count) {
      const auto m = V::mask(count - i);
      V::store(dst + i, limited(V::load(src + i, m)), m);
    }
  } else {
    clamp_ref(src + i, dst + i, count - i, limits);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
