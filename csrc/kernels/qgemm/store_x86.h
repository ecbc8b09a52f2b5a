// Converts qgemm's sums to results, a vector of columns and four rows at a time. D is a class of
// kernels/dot4. Included by x86's sources only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/conv_activation.h"
#include "kernels/gemm/half_avx2.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/dot_tile_x86.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kStoreRows = 4;

// How each dst type stores the first `count` columns of up to four rows, which are `stride`
// elements apart.
template <typename D>
struct RealStore {
  using Element = float;
  explicit RealStore(const ConvDst& /*dst*/) {}
  CPUACCEL_INLINE void operator()(float* to, int64_t stride, typename D::Float (&real)[kStoreRows],
                                  int64_t rows, int64_t count) const {
    CPUACCEL_UNROLL
    for (int i = 0; i < kStoreRows; ++i) {
      if (i < rows) {
        D::store_floats(to + i * stride, real[i], count);
      }
    }
  }
};

template <typename D>
struct Bf16Store {
  using Element = uint16_t;
  explicit Bf16Store(const ConvDst& /*dst*/) {}
  CPUACCEL_INLINE void operator()(uint16_t* to, int64_t stride,
                                  typename D::Float (&real)[kStoreRows], int64_t rows,
                                  int64_t count) const {
    for (int i = 0; i < rows; ++i) {
      alignas(64) float some[D::kLanes];
      uint16_t halves[D::kLanes];
      D::store_floats(some, real[i], D::kLanes);
      for (int64_t j = 0; j < D::kLanes; j += Bf16Elements::kLanes) {
        Bf16Elements::store(halves + j, _mm256_load_ps(some + j));
      }
      std::memcpy(to + i * stride, halves, static_cast<size_t>(count) * sizeof(*to));
    }
  }
};

// Clamps before rounding, which gives the same result because the limits are integers; a NaN
// becomes the lowest.
template <typename D>
struct ByteStore {
  using Element = uint8_t;
  typename D::Float low, high;
  typename D::Quantizer quantizer;
  explicit ByteStore(const ConvDst& dst)
      : low(D::set1(static_cast<float>(dst.min - dst.zero_point))),
        high(D::set1(static_cast<float>(dst.max - dst.zero_point))),
        quantizer(dst.zero_point, dst.min, dst.max, dst.flip()) {}
  CPUACCEL_INLINE void operator()(uint8_t* to, int64_t stride,
                                  typename D::Float (&real)[kStoreRows], int64_t rows,
                                  int64_t count) const {
    using F = typename D::Floats;
    uint8_t* at[kStoreRows];
    int64_t counts[kStoreRows];
    CPUACCEL_UNROLL
    for (int i = 0; i < kStoreRows; ++i) {
      real[i] = F::min(F::max(real[i], low), high);
      at[i] = i < rows ? to + i * stride : to;
      counts[i] = i < rows ? count : 0;
    }
    D::store4(at, D::quantize4(real, quantizer), counts);
  }
};

template <typename D>
void store_sums(const QgemmStore& s) {
  for (int64_t column = 0; column < s.n; column += D::kLanes) {
    const int64_t n = s.n0 + column;
    const auto count = static_cast<size_t>(std::min(D::kLanes, s.n - column));
    const auto of_column = D::load(s.call.weights->column_sums + n);
    for (int64_t i = 0; i < s.m; ++i) {
      const auto sum = D::load(s.sums + i * kPanelColumns<D> + column);
      const auto acc = D::add(sum, D::multiply(of_column, D::set1(s.offsets[i])));
      auto* to = static_cast<int32_t*>(s.call.dst.data) + (s.m0 + i) * s.call.dst.row_stride + n;
      if (count == D::kLanes) {
        D::store(to, acc);
      } else {
        alignas(64) int32_t some[D::kLanes];
        D::store(some, acc);
        std::memcpy(to, some, count * sizeof(*to));
      }
    }
  }
}

template <typename D, typename Store>
void store_as(const QgemmStore& s) {
  using F = typename D::Floats;
  const QgemmDst& dst = s.call.dst;
  const ConvDst conv = s.conv;
  const Store store(conv);
  for (int64_t column = 0; column < s.n; column += D::kLanes) {
    const int64_t n = s.n0 + column, count = std::min(D::kLanes, s.n - column);
    const auto scales = D::load_floats(dst.scales + n, count);
    const auto bias = dst.bias == nullptr ? D::set1(0.0f) : D::load_floats(dst.bias + n, count);
    const auto of_column = D::load(s.call.weights->column_sums + n);
    auto* to = static_cast<typename Store::Element*>(dst.data) + s.m0 * dst.row_stride + n;
    for (int64_t m = 0; m < s.m; m += kStoreRows) {
      const int64_t rows = std::min<int64_t>(kStoreRows, s.m - m);
      typename D::Float real[kStoreRows];
      CPUACCEL_UNROLL
      for (int i = 0; i < kStoreRows; ++i) {
        const int64_t row = i < rows ? m + i : m;
        const auto sum = D::load(s.sums + row * kPanelColumns<D> + column);
        const auto acc = D::add(sum, D::multiply(of_column, D::set1(s.offsets[row])));
        auto scaled = D::to_real(acc, D::set1(1.0f), D::set1(0.0f));
        if (s.scales != nullptr) {
          scaled = F::multiply(scaled, D::set1(s.scales[row]));
        }
        real[i] = F::fma(scaled, scales, bias);
      }
      apply_activation<F, kStoreRows>(conv, real);
      store(to + m * dst.row_stride, dst.row_stride, real, rows, count);
    }
  }
}

template <typename D>
void store_results(const QgemmStore& s) {
  switch (s.call.dst.type) {
    case DataType::s32:
      return store_sums<D>(s);
    case DataType::f32:
      return store_as<D, RealStore<D>>(s);
    case DataType::bf16:
      return store_as<D, Bf16Store<D>>(s);
    default:
      return store_as<D, ByteStore<D>>(s);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
