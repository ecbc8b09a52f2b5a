// Activation functions of f32 for any vector class of floats. Included by ISA sources.
#pragma once

#include <cstdint>

#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/float_vectors/functions.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, typename V::Vector (*kFunction)(typename V::Vector)>
void function_loop(float* values, int64_t count) {
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
void apply_float_function(FloatFunction function, float* values, int64_t count) {
  switch (function) {
    case FloatFunction::relu:
      return function_loop<V, relu<V>>(values, count);
    case FloatFunction::hardswish:
      return function_loop<V, hardswish<V>>(values, count);
    case FloatFunction::silu:
      return function_loop<V, silu_by_power<V>>(values, count);
    case FloatFunction::gelu:
      return function_loop<V, gelu<V>>(values, count);
    case FloatFunction::gelu_tanh:
      return function_loop<V, gelu_tanh<V>>(values, count);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
