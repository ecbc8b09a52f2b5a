// Addition and multiplication of quantized uint8 vectors, for any ISA that works on 128-bit lanes.
// Included by ISA sources. Unpacking and packing stay within 128-bit lanes, so that they undo each
// other's order.
//
// V is a class of kernels/byte_vectors.
#pragma once

#include "kernels/binary/binary.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
struct Requantized {
  using Vector = typename V::Vector;
  using Words = typename V::Words;
  using Floats = typename V::Floats;

  Words zero_point;
  Vector low;

  explicit Requantized(const BinaryQuantizers& q)
      : zero_point(V::set16(q.zero_point)), low(V::set8(q.relu ? q.zero_point : 0)) {}

  Vector operator()(Floats a, Floats b, Floats c, Floats d) const {
    const Words first = words(a, b), second = words(c, d);
    return V::max8(V::pack16(first, second), low);
  }
  Words words(Floats a, Floats b) const {
    return V::add16_saturating(V::pack32(V::rounded(a), V::rounded(b)), zero_point);
  }
};

template <typename V>
struct Sum {
  using Vector = typename V::Vector;
  using Words = typename V::Words;
  using Ints = typename V::Ints;
  using Floats = typename V::Floats;

  Floats scale_a, scale_b, offset_a, offset_b, inverse_scale;
  Requantized<V> requantized;

  explicit Sum(const BinaryQuantizers& q)
      : scale_a(V::set_float(q.scale_a)),
        scale_b(V::set_float(q.scale_b)),
        offset_a(V::set_float(q.scale_a * static_cast<float>(-q.zero_point_a))),
        offset_b(V::set_float(q.scale_b * static_cast<float>(-q.zero_point_b))),
        inverse_scale(V::set_float(1.0f / q.scale)),
        requantized(q) {}

  Floats sum(Ints a, Ints b) const {
    const Floats real_a = V::fma(scale_a, V::to_floats(a), offset_a);
    const Floats real_b = V::fma(scale_b, V::to_floats(b), offset_b);
    return V::multiply(V::add(real_a, real_b), inverse_scale);
  }

  Vector operator()(Vector a, Vector b) const {
    const Words low_a = V::widen_low8(a), high_a = V::widen_high8(a);
    const Words low_b = V::widen_low8(b), high_b = V::widen_high8(b);
    return requantized(sum(V::widen_low16(low_a), V::widen_low16(low_b)),
                       sum(V::widen_high16(low_a), V::widen_high16(low_b)),
                       sum(V::widen_low16(high_a), V::widen_low16(high_b)),
                       sum(V::widen_high16(high_a), V::widen_high16(high_b)));
  }
};

template <typename V>
struct Product {
  using Vector = typename V::Vector;
  using Words = typename V::Words;
  using Floats = typename V::Floats;

  Words zero_point_a, zero_point_b;
  Floats multiplier;
  Requantized<V> requantized;

  explicit Product(const BinaryQuantizers& q)
      : zero_point_a(V::set16(q.zero_point_a)),
        zero_point_b(V::set16(q.zero_point_b)),
        multiplier(V::set_float(q.scale_a * q.scale_b * (1.0f / q.scale))),
        requantized(q) {}

  Floats scaled(typename V::Ints products) const {
    return V::multiply(V::to_floats(products), multiplier);
  }

  Vector operator()(Vector a, Vector b) const {
    const Words low_a = V::subtract16(V::widen_low8(a), zero_point_a);
    const Words low_b = V::subtract16(V::widen_low8(b), zero_point_b);
    const Words high_a = V::subtract16(V::widen_high8(a), zero_point_a);
    const Words high_b = V::subtract16(V::widen_high8(b), zero_point_b);
    return requantized(
        scaled(V::products_low16(low_a, low_b)), scaled(V::products_high16(low_a, low_b)),
        scaled(V::products_low16(high_a, high_b)), scaled(V::products_high16(high_a, high_b)));
  }
};

template <typename V, template <typename> typename Operation>
void binary_by_vectors(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                       const BinaryQuantizers& q) {
  const Operation<V> operation(q);
  if (count < V::kBytes) {
    uint8_t padded_a[V::kBytes] = {};
    uint8_t padded_b[V::kBytes] = {};
    for (int64_t i = 0; i < count; ++i) {
      padded_a[i] = a[i];
      padded_b[i] = b[i];
    }
    V::store(padded_a, operation(V::load(padded_a), V::load(padded_b)));
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = padded_a[i];
    }
    return;
  }
  // The last vector overlaps the one before. It is loaded first and stored last, because dst may be
  // a or b.
  const int64_t end = count - V::kBytes;
  const auto last = operation(V::load(a + end), V::load(b + end));
  for (int64_t i = 0; i < end; i += V::kBytes) {
    V::store(dst + i, operation(V::load(a + i), V::load(b + i)));
  }
  V::store(dst + end, last);
}

}  // namespace
}  // namespace cpuaccel::kernels
