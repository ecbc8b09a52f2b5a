// ConvDst (scale, bias, post-op, requantization) one element at a time, for the reference kernels.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/conv_dst.h"
#include "kernels/float_vectors/activations_ref.h"

namespace cpuaccel::kernels {
namespace {

// Writes element `offset`: applies the post-op to `real`, then requantizes it.
inline void store_real_ref(const ConvDst& dst, int64_t offset, float real) {
  real = activation_ref(dst.activation, real);
  if (dst.type == DataType::f32) {
    static_cast<float*>(dst.data)[offset] = real;
    return;
  }
  // Larger values are clamped anyway, and the sum with a zero point stays within int32.
  constexpr float kLimit = 1.0e9f;
  real *= dst.inverse_scale;
  const float limited = std::fmin(std::fmax(real, -kLimit), kLimit);  // limits a NaN as well
  int32_t value = static_cast<int32_t>(std::nearbyint(limited)) + dst.zero_point;
  value = value < dst.min ? dst.min : value > dst.max ? dst.max : value;
  static_cast<uint8_t*>(dst.data)[offset] = static_cast<uint8_t>(value ^ dst.flip());
}

// Writes element `offset`, which belongs to channel `oc`.
inline void store_ref(const ConvDst& dst, int64_t offset, int64_t oc, int32_t acc) {
  store_real_ref(dst, offset, std::fma(static_cast<float>(acc), dst.scales[oc], dst.bias[oc]));
}

}  // namespace
}  // namespace cpuaccel::kernels
