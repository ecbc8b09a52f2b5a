// Output of the int8 convolution families (dwconv, qconv): scale, bias, post-op and requantization
// of an accumulator.
#pragma once

#include <cstdint>

#include "base/activation.h"
#include "base/data_type.h"

namespace cpuaccel::kernels {

// real = activation(fma(float(acc), scales[oc], bias[oc]))
//   u8:  clamp(round_half_to_even(real * inverse_scale) + zero_point, min, max)
//   s8:  computed as u8 and then flipped: zero_point, min and max are the result's plus 128
//   f32: real
// For u8 and s8 |real * inverse_scale| must be below 2^31: conv_dst_in_range() checks it.
// Errors of activations: silu at most 4 * 2^-24 of the result, plus 1e-36; gelu and gelu_tanh at
// most 2^-20 * |x|.
struct ConvDst {
  void* data = nullptr;
  DataType type = DataType::u8;   // u8, s8 or f32
  const float* scales = nullptr;  // OC
  const float* bias = nullptr;    // OC
  Activation activation = Activation::none;
  // 1 if there is no post-op: scales and bias then include it.
  float inverse_scale = 1.0f;
  int32_t zero_point = 0;      // 0 .. 255
  uint8_t min = 0, max = 255;  // relu: min = zero_point; relu6: max as well

  int64_t element_size() const { return type == DataType::f32 ? 4 : 1; }
  // Flipping the top bit turns u8 into s8.
  uint8_t flip() const { return type == DataType::s8 ? 0x80 : 0; }
};

// True if all results can be rounded to int32, for accumulators of magnitude up to `magnitude` and
// the given largest scale and bias.
constexpr bool conv_dst_in_range(double largest_scale, double largest_bias, int64_t magnitude) {
  // Below 2^31 by more than a float's rounding error.
  return largest_scale * static_cast<double>(magnitude) + largest_bias < 2147483000.0;
}

// Called on each finished run of results, elements [offset, offset + count) of a u8 dst, while it
// is still in a cache. For ops fused behind a convolution. Called from any thread.
struct ConvEpilogue {
  void (*run)(const void* context, uint8_t* dst, int64_t offset, int64_t count) = nullptr;
  const void* context = nullptr;
};

}  // namespace cpuaccel::kernels
