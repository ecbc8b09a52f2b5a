// ConvFunction (post-ops of int8 convolutions) on vectors of floats. V is a vector class of
// kernels/float_vectors. Included by ISA sources.
#pragma once

#include <cstdint>

#include "kernels/conv_dst.h"
#include "kernels/float_vectors/functions.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, typename V::Vector (*kFunction)(typename V::Vector)>
CPUACCEL_INLINE void apply_and_scale(float scale, typename V::Vector* reals, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    reals[i] = V::multiply(kFunction(reals[i]), V::set1(scale));
  }
}

// reals[i] = function(reals[i]) * inverse_scale.
template <typename V>
CPUACCEL_INLINE void apply_function(ConvFunction function, float inverse_scale,
                                    typename V::Vector* reals, int64_t count) {
  switch (function) {
    case ConvFunction::none:
      return;
    case ConvFunction::relu:
      return apply_and_scale<V, relu<V>>(inverse_scale, reals, count);
    case ConvFunction::hardswish:
      return apply_and_scale<V, hardswish<V>>(inverse_scale, reals, count);
    case ConvFunction::silu:
      return apply_and_scale<V, silu<V>>(inverse_scale, reals, count);
    case ConvFunction::gelu:
      return apply_and_scale<V, gelu<V>>(inverse_scale, reals, count);
    case ConvFunction::gelu_tanh:
      return apply_and_scale<V, gelu_tanh<V>>(inverse_scale, reals, count);
  }
}

// Out of line and called once for many results, so that loops without a post-op keep their
// registers.
template <typename V, int kCount>
[[gnu::noinline]] void apply_function(ConvFunction function, float inverse_scale,
                                      typename V::Vector* reals) {
  apply_function<V>(function, inverse_scale, reals, kCount);
}

// Applies dst's post-op, if it has one, to kCount vectors that live in registers.
template <typename V, int kCount>
CPUACCEL_INLINE void apply_function(const ConvDst& dst, typename V::Vector* reals) {
  if (dst.function != ConvFunction::none) [[unlikely]] {
    typename V::Vector copies[kCount];
    for (int i = 0; i < kCount; ++i) {
      copies[i] = reals[i];
    }
    apply_function<V, kCount>(dst.function, dst.inverse_scale, copies);
    for (int i = 0; i < kCount; ++i) {
      reals[i] = copies[i];
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
