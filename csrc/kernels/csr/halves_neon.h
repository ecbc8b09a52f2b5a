// NEON vector classes for graph kernels: eight 16-bit floats as two vectors of f32, with one load
// for both. For f32 and f64 two vectors at once gain nothing.
#pragma once

#include "kernels/csr/beside_wider.h"
#include "kernels/csr/neon.h"

namespace cpuaccel::kernels {
namespace {

// Half converts 16-bit floats to and from f32.
template <typename Half>
struct GraphHalfx8 {
  using Element = uint16_t;
  using Number = float;
  using V = GraphF32x4;
  using Few = GraphHalfx4<Half>;
  struct Vector {
    float32x4_t low, high;
  };
  struct Taken {
    uint32x4_t low, high;
  };
  using Mask = int64_t;  // lanes
  static constexpr int64_t kLanes = 8;
  static constexpr int64_t kMostVectors = 8;

  CPUACCEL_INLINE static float number(uint16_t value) { return Half::number(value); }
  CPUACCEL_INLINE static Vector set1(float value) { return {V::set1(value), V::set1(value)}; }
  CPUACCEL_INLINE static Vector load(const uint16_t* src) {
    const uint16x8_t halves = vld1q_u16(src);
    return {Half::widened(vget_low_u16(halves)), Half::widened_high(halves)};
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v) {
    vst1q_u16(dst, vcombine_u16(Half::rounded(v.low), Half::rounded(v.high)));
  }
  CPUACCEL_INLINE static Vector load_numbers(const float* src) {
    return {V::load_numbers(src), V::load_numbers(src + V::kLanes)};
  }
  CPUACCEL_INLINE static void store_numbers(float* dst, Vector v) {
    V::store_numbers(dst, v.low);
    V::store_numbers(dst + V::kLanes, v.high);
  }
  CPUACCEL_INLINE static Vector add(Vector a, Vector b) {
    return {V::add(a.low, b.low), V::add(a.high, b.high)};
  }
  CPUACCEL_INLINE static Vector multiply(Vector a, Vector b) {
    return {V::multiply(a.low, b.low), V::multiply(a.high, b.high)};
  }
  CPUACCEL_INLINE static Vector divide(Vector a, Vector b) {
    return {V::divide(a.low, b.low), V::divide(a.high, b.high)};
  }
  CPUACCEL_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return {V::fma(a.low, b.low, c.low), V::fma(a.high, b.high, c.high)};
  }
  CPUACCEL_INLINE static float total(Vector v) { return V::total(V::add(v.low, v.high)); }
  CPUACCEL_INLINE static Taken larger_or_nan(Vector a, Vector b) {
    return {V::larger_or_nan(a.low, b.low), V::larger_or_nan(a.high, b.high)};
  }
  CPUACCEL_INLINE static Taken equal(Vector a, Vector b) {
    return {V::equal(a.low, b.low), V::equal(a.high, b.high)};
  }
  CPUACCEL_INLINE static Vector select(Taken taken, Vector a, Vector b) {
    return {V::select(taken.low, a.low, b.low), V::select(taken.high, a.high, b.high)};
  }
  CPUACCEL_INLINE static Mask mask(int64_t count) { return count; }
  CPUACCEL_INLINE static Vector load(const uint16_t* src, Mask m) {
    return {Few::load(src, Few::mask(m)), Few::load(src + Few::kLanes, Few::mask(m - Few::kLanes))};
  }
  CPUACCEL_INLINE static void store(uint16_t* dst, Vector v, Mask m) {
    Few::store(dst, v.low, Few::mask(m));
    Few::store(dst + Few::kLanes, v.high, Few::mask(m - Few::kLanes));
  }
};

using GraphBf16x8 = GraphHalfx8<Bf16s>;
using GraphF16x8 = GraphHalfx8<F16s>;

}  // namespace
}  // namespace cpuaccel::kernels
