// Vector classes of one lane, for the reference kernels. They show which members impl.h needs of a
// vector class.
#pragma once

#include <cstdint>

#include "kernels/gemm/half.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

template <typename Float>
struct GraphScalar {
  using Element = Float;
  using Number = Float;
  using Vector = Float;
  using Mask = bool;
  static constexpr int64_t kLanes = 1;
  static constexpr int64_t kMostVectors = 2;

  CPUACCEL_INLINE static Vector set1(Number value) { return value; }
  CPUACCEL_INLINE static Vector load(const Element* src) { return *src; }
  CPUACCEL_INLINE static void store(Element* dst, Vector v) { *dst = v; }
  CPUACCEL_INLINE static Vector load_numbers(const Number* src) { return *src; }
  CPUACCEL_INLINE static void store_numbers(Number* dst, Vector v) { *dst = v; }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) { return a + b; }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) { return a * b; }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) { return a / b; }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) { return a * b + c; }
  CPUACCEL_INLINE static Number total(Vector v) { return v; }  // the sum of its lanes
  // Lanes where a is larger than b, or a is NaN.
  CPUACCEL_INLINE static bool larger_or_nan(Vector a, Vector b) {
    return a > b || __builtin_isnan(a);
  }
  CPUACCEL_INLINE static bool equal(Vector a, Vector b) { return a == b; }  // a NaN equals nothing
  CPUACCEL_INLINE static Vector select(bool taken, Vector a, Vector b) { return taken ? a : b; }

  // The first `count` lanes; masked loads give 0 in the others.
  CPUACCEL_INLINE static Mask mask(int64_t count) { return count > 0; }
  CPUACCEL_INLINE static Vector load(const Element* src, Mask m) { return m ? *src : 0; }
  CPUACCEL_INLINE static void store(Element* dst, Vector v, Mask m) {
    if (m) {
      *dst = v;
    }
  }
};

// Elements of 16 bits; their numbers are float.
template <float (*kWiden)(uint16_t), uint16_t (*kRound)(float)>
struct GraphHalf : GraphScalar<float> {
  using Element = uint16_t;
  CPUACCEL_INLINE static float number(Element value) { return kWiden(value); }
  CPUACCEL_INLINE static Vector load(const Element* src) { return kWiden(*src); }
  CPUACCEL_INLINE static void store(Element* dst, Vector v) { *dst = kRound(v); }
  CPUACCEL_INLINE static Vector load(const Element* src, Mask m) { return m ? kWiden(*src) : 0; }
  CPUACCEL_INLINE static void store(Element* dst, Vector v, Mask m) {
    if (m) {
      *dst = kRound(v);
    }
  }
};

using ScalarBf16 = GraphHalf<bf16_to_float, float_to_bf16>;
using ScalarF16 = GraphHalf<f16_to_float, float_to_f16>;

}  // namespace
}  // namespace cpuaccel::kernels
