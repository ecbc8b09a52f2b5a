// PostOp: the post-ops of int8 layers.
#pragma once

#include <cstdint>
#include <optional>

#include "base/activation.h"

namespace cpuaccel::dnnl_layer {

// Applied to real numbers, after scale and bias and before requantization. none and activations
// have the numbers of Activation, so that a cast converts one to the other.
enum class PostOp : uint8_t {
  none,
#define CPUACCEL_ACTIVATION(name, ...) name,
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
  leaky_relu,
  tanh,
  sum,  // adds what dst held before
  sum_relu,
};

constexpr PostOp post_op_of(Activation activation) { return static_cast<PostOp>(activation); }

// nullopt for post-ops that are not in base/activations.inc.
constexpr std::optional<Activation> activation_of(PostOp post) {
  return post < PostOp::leaky_relu ? std::optional(static_cast<Activation>(post)) : std::nullopt;
}

// Whether post(scale * x) is scale * post(x).
constexpr bool commutes_with_scales(PostOp post) {
  return post == PostOp::none || post == PostOp::relu || post == PostOp::leaky_relu ||
         post == PostOp::sum || post == PostOp::sum_relu;
}

}  // namespace cpuaccel::dnnl_layer
