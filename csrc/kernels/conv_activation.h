// Activations of int8 convolutions on vectors of floats. V is a vector class of
// kernels/float_vectors. Included by ISA sources.
#pragma once

#include <cstdint>

#include "kernels/conv_dst.h"
#include "kernels/float_vectors/activations.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, typename V::Vector (*kFunction)(typename V::Vector)>
CPUACCEL_INLINE void apply_and_scale(float scale, typename V::Vector* reals, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    reals[i] = V::multiply(kFunction(reals[i]), V::set1(scale));
  }
}

// reals[i] = activation(reals[i]) * inverse_scale.
template <typename V>
CPUACCEL_INLINE void apply_activation(Activation activation, float inverse_scale,
                                      typename V::Vector* reals, int64_t count) {
  switch (activation) {
    case Activation::none:
      return;
#define CPUACCEL_ACTIVATION(name, ...) \
  case Activation::name:               \
    return apply_and_scale<V, name<V>>(inverse_scale, reals, count);
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
  }
}

// Out of line and called once for many results, so that loops without a post-op keep their
// registers.
template <typename V, int kCount>
[[gnu::noinline]] void apply_activation(Activation activation, float inverse_scale,
                                        typename V::Vector* reals) {
  apply_activation<V>(activation, inverse_scale, reals, kCount);
}

// Applies dst's post-op, if it has one, to kCount vectors that live in registers.
template <typename V, int kCount>
CPUACCEL_INLINE void apply_activation(const ConvDst& dst, typename V::Vector* reals) {
  if (dst.activation != Activation::none) [[unlikely]] {
    typename V::Vector copies[kCount];
    for (int i = 0; i < kCount; ++i) {
      copies[i] = reals[i];
    }
    apply_activation<V, kCount>(dst.activation, dst.inverse_scale, copies);
    for (int i = 0; i < kCount; ++i) {
      reals[i] = copies[i];
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
