// PostOp: the post-ops of int8 layers.
#pragma once

#include <cstdint>

namespace cpuaccel::dnnl_layer {

// Applied to real numbers, after scale and bias and before requantization.
enum class PostOp : uint8_t {
  none,
  relu,
  leaky_relu,
  tanh,
  sum,  // adds what dst held before
  sum_relu,
  hardswish,
  silu,
  gelu,  // by erf
  gelu_tanh,
};

}  // namespace cpuaccel::dnnl_layer
