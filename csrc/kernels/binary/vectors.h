// Addition and multiplication of quantized uint8 vectors, for any ISA that works on 128-bit lanes.
// Included by ISA sources. Unpacking and packing stay within 128-bit lanes, so that they undo each
// other's order.
//
// Vector: Bytes, Floats, kBytes, load, store, low8, high8 (bytes to 16 bits), low16, high16 (16 to
// 32 bits), product_low, product_high (16 by 16 bits to 32), subtract16, to_floats, fill16, fill8,
// fill, fma, add, multiply, pack (four vectors of floats, rounded, with a zero point), max8.
#pragma once

#include "kernels/binary/binary.h"

namespace cpuaccel::kernels {
namespace {

template <typename Vector>
struct Requantized {
  typename Vector::Bytes zero_point;  // 16-bit lanes
  typename Vector::Bytes low;

  explicit Requantized(const BinaryQuantizers& q)
      : zero_point(Vector::fill16(static_cast<int16_t>(q.zero_point))),
        low(Vector::fill8(static_cast<int8_t>(q.relu ? q.zero_point : 0))) {}

  typename Vector::Bytes operator()(typename Vector::Floats a, typename Vector::Floats b,
                                    typename Vector::Floats c, typename Vector::Floats d) const {
    return Vector::max8(Vector::pack(a, b, c, d, zero_point), low);
  }
};

template <typename Vector>
struct Sum {
  using Bytes = typename Vector::Bytes;
  using Floats = typename Vector::Floats;

  Floats scale_a, scale_b, offset_a, offset_b, inverse_scale;
  Requantized<Vector> requantized;

  explicit Sum(const BinaryQuantizers& q)
      : scale_a(Vector::fill(q.scale_a)),
        scale_b(Vector::fill(q.scale_b)),
        offset_a(Vector::fill(q.scale_a * static_cast<float>(-q.zero_point_a))),
        offset_b(Vector::fill(q.scale_b * static_cast<float>(-q.zero_point_b))),
        inverse_scale(Vector::fill(1.0f / q.scale)),
        requantized(q) {}

  Floats sum(Bytes a, Bytes b) const {
    const Floats real_a = Vector::fma(scale_a, Vector::to_floats(a), offset_a);
    const Floats real_b = Vector::fma(scale_b, Vector::to_floats(b), offset_b);
    return Vector::multiply(Vector::add(real_a, real_b), inverse_scale);
  }

  Bytes operator()(Bytes a, Bytes b) const {
    const Bytes low_a = Vector::low8(a), high_a = Vector::high8(a);
    const Bytes low_b = Vector::low8(b), high_b = Vector::high8(b);
    return requantized(sum(Vector::low16(low_a), Vector::low16(low_b)),
                       sum(Vector::high16(low_a), Vector::high16(low_b)),
                       sum(Vector::low16(high_a), Vector::low16(high_b)),
                       sum(Vector::high16(high_a), Vector::high16(high_b)));
  }
};

template <typename Vector>
struct Product {
  using Bytes = typename Vector::Bytes;
  using Floats = typename Vector::Floats;

  Bytes zero_point_a, zero_point_b;
  Floats multiplier;
  Requantized<Vector> requantized;

  explicit Product(const BinaryQuantizers& q)
      : zero_point_a(Vector::fill16(static_cast<int16_t>(q.zero_point_a))),
        zero_point_b(Vector::fill16(static_cast<int16_t>(q.zero_point_b))),
        multiplier(Vector::fill(q.scale_a * q.scale_b * (1.0f / q.scale))),
        requantized(q) {}

  Floats scaled(Bytes products) const {
    return Vector::multiply(Vector::to_floats(products), multiplier);
  }

  Bytes operator()(Bytes a, Bytes b) const {
    const Bytes low_a = Vector::subtract16(Vector::low8(a), zero_point_a);
    const Bytes low_b = Vector::subtract16(Vector::low8(b), zero_point_b);
    const Bytes high_a = Vector::subtract16(Vector::high8(a), zero_point_a);
    const Bytes high_b = Vector::subtract16(Vector::high8(b), zero_point_b);
    return requantized(
        scaled(Vector::product_low(low_a, low_b)), scaled(Vector::product_high(low_a, low_b)),
        scaled(Vector::product_low(high_a, high_b)), scaled(Vector::product_high(high_a, high_b)));
  }
};

template <typename Vector, template <typename> typename Operation>
void binary_by_vectors(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                       const BinaryQuantizers& q) {
  const Operation<Vector> operation(q);
  if (count < Vector::kBytes) {
    uint8_t padded_a[Vector::kBytes] = {};
    uint8_t padded_b[Vector::kBytes] = {};
    for (int64_t i = 0; i < count; ++i) {
      padded_a[i] = a[i];
      padded_b[i] = b[i];
    }
    Vector::store(padded_a, operation(Vector::load(padded_a), Vector::load(padded_b)));
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = padded_a[i];
    }
    return;
  }
  // The last vector overlaps the one before. It is loaded first and stored last, because dst may be
  // a or b.
  const int64_t end = count - Vector::kBytes;
  const auto last = operation(Vector::load(a + end), Vector::load(b + end));
  for (int64_t i = 0; i < end; i += Vector::kBytes) {
    Vector::store(dst + i, operation(Vector::load(a + i), Vector::load(b + i)));
  }
  Vector::store(dst + end, last);
}

}  // namespace
}  // namespace cpuaccel::kernels
