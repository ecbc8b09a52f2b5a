// Activations of f32 for any vector class of floats. Included by ISA sources.
#pragma once

#include <cstdint>

#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/float_vectors/activations.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, Activation kActivation>
CPUACCEL_INLINE typename V::Vector activate_f32(typename V::Vector x) {
  if constexpr (kActivation == Activation::silu) {
    return silu_by_power<V>(x);
  } else {
    return activate<V, kActivation>(x);
  }
}

template <typename V, typename V::Vector (*kFunction)(typename V::Vector)>
void eltwise_loop(float* values, int64_t count) {
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    V::store(values + i, kFunction(V::load(values + i)));
  }
  if (i < count) {
    float floats[V::kLanes] = {};
    for (int64_t j = i; j < count; ++j) {
      floats[j - i] = values[j];
    }
    V::store(floats, kFunction(V::load(floats)));
    for (int64_t j = i; j < count; ++j) {
      values[j] = floats[j - i];
    }
  }
}

template <typename V>
void apply_activation_f32(Activation activation, float* values, int64_t count) {
  switch (activation) {
    case Activation::none:
      return;
#define CPUACCEL_ACTIVATION(name, ...) \
  case Activation::name:               \
    return eltwise_loop<V, activate_f32<V, Activation::name>>(values, count);
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
