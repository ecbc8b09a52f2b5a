// ConvDst, one element at a time, for the scalar references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/conv_dst.h"

namespace cpuaccel::kernels {
namespace {

// Writes element `offset`, of channel `oc`.
inline void store_ref(const ConvDst& dst, int64_t offset, int64_t oc, int32_t acc) {
  const float real = std::fma(static_cast<float>(acc), dst.scales[oc], dst.bias[oc]);
  if (dst.type == DstType::f32) {
    static_cast<float*>(dst.data)[offset] = real;
    return;
  }
  // Beyond this everything is clamped, and the sum with a zero point stays within int32.
  constexpr float kLimit = 1.0e9f;
  const float limited = real < -kLimit ? -kLimit : real > kLimit ? kLimit : real;
  int32_t value = static_cast<int32_t>(std::nearbyint(limited)) + dst.zero_point;
  value = value < dst.min ? dst.min : value > dst.max ? dst.max : value;
  static_cast<uint8_t*>(dst.data)[offset] = static_cast<uint8_t>(value ^ dst.flip());
}

}  // namespace
}  // namespace cpuaccel::kernels
