// The activations of base/activations.inc as oneDNN's elementwise algorithms.
#pragma once

#include <array>

#include "base/activation.h"
#include "dnnl/api.h"

namespace cpuaccel::dnnl_layer {

struct Eltwise {
  Activation activation;
  dnnl::algorithm algorithm;
  float alpha, beta;
};

inline constexpr std::array kEltwise{
#define CPUACCEL_ACTIVATION(name, function, alpha, beta, ...) \
  Eltwise{Activation::name, dnnl::algorithm::function, alpha, beta},
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
};

}  // namespace cpuaccel::dnnl_layer
