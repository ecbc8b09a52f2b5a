// ConvFunction of vectors of floats: kernels/floats' V. Included by ISA files.
#pragma once

#include "kernels/conv_dst.h"
#include "kernels/floats/silu.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// reals[i] = function(reals[i]) * inverse_scale. A call of its own, once for many results, so that
// loops without a function keep their registers.
template <typename V, int kCount>
[[gnu::noinline]] void apply_function(ConvFunction function, float inverse_scale,
                                      typename V::Vector* reals) {
  const auto zero = V::set1(0.0f), inverse = V::set1(inverse_scale);
  switch (function) {
    case ConvFunction::none:
      break;
    case ConvFunction::relu:
      for (int i = 0; i < kCount; ++i) {
        reals[i] = V::multiply(V::max(zero, reals[i]), inverse);
      }
      break;
    case ConvFunction::hardswish: {
      const auto three = V::set1(3.0f), six = V::set1(6.0f), sixth = V::set1(1.0f / 6.0f);
      for (int i = 0; i < kCount; ++i) {
        const auto gate = V::min(V::max(V::add(reals[i], three), zero), six);
        reals[i] = V::multiply(V::multiply(V::multiply(reals[i], gate), sixth), inverse);
      }
      break;
    }
    case ConvFunction::silu:
      for (int i = 0; i < kCount; ++i) {
        reals[i] = V::multiply(silu<V>(reals[i]), inverse);
      }
      break;
  }
}

// The same where there is one, of kCount vectors that live in registers.
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
