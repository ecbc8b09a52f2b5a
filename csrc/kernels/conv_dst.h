// What the int8 convolution families make of an accumulator: shared by dwconv and qconv.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {

// real = function(fma(float(acc), scales[oc], bias[oc]))
//   u8:  clamp(round_half_to_even(real * inverse_scale) + zero_point, min, max)
//   s8:  the same by way of u8: zero_point, min and max are those of the result plus 128
//   f32: real
// For u8 and s8 |real * inverse_scale| must be below 2^31: conv_dst_in_range() tells.
enum class DstType : uint8_t { u8, s8, f32 };

// What is done to real numbers before they are rounded. None grows |x|.
//   relu       max(x, 0)
//   hardswish  x * min(max(x + 3, 0), 6) / 6
//   silu       x / (1 + exp(-x)); off by at most 4 * 2^-24 of it, and 1e-36
//   gelu       x * (1 + erf(x / sqrt(2))) / 2; off by at most 2^-20 * |x|
//   gelu_tanh  x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2; likewise
enum class ConvFunction : uint8_t { none, relu, hardswish, silu, gelu, gelu_tanh };

struct ConvDst {
  void* data = nullptr;
  DstType type = DstType::u8;
  const float* scales = nullptr;  // OC
  const float* bias = nullptr;    // OC
  ConvFunction function = ConvFunction::none;
  // Without a function 1: scales and bias have it in them.
  float inverse_scale = 1.0f;
  int32_t zero_point = 0;      // 0 .. 255
  uint8_t min = 0, max = 255;  // relu: min = zero_point; relu6: max as well

  int64_t element_size() const { return type == DstType::f32 ? 4 : 1; }
  // Flipping the top bit turns u8 into s8.
  uint8_t flip() const { return type == DstType::s8 ? 0x80 : 0; }
};

// True if accumulators of up to `magnitude`, with scales and biases of up to these, give results
// that can be rounded to int32.
constexpr bool conv_dst_in_range(double largest_scale, double largest_bias, int64_t magnitude) {
  // Below 2^31 by more than a float's rounding error.
  return largest_scale * static_cast<double>(magnitude) + largest_bias < 2147483000.0;
}

// Called on each finished run of results, [offset, offset + count) elements of a u8 destination,
// while it is still in a cache: for what is fused behind a convolution. From any thread.
struct ConvEpilogue {
  void (*run)(const void* context, uint8_t* dst, int64_t offset, int64_t count) = nullptr;
  const void* context = nullptr;
};

}  // namespace cpuaccel::kernels
