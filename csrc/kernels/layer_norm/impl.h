// Layer normalization of one row, templated on the vector type. Included by ISA files.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/float_vectors/sum_over.h"
#include "kernels/layer_norm/layer_norm.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
void layer_norm_row(const LayerNormRow& row) {
  using Vector = typename V::Vector;
  const auto count = static_cast<float>(row.columns);
  float* const x = row.x;
  const float total = sum_over<V>(
      row.columns,
      [&](int64_t i, Vector sum) __attribute__((always_inline)) {
        Vector value = V::load(row.src + i);
        if (row.addend != nullptr) {
          value = V::add(value, V::load(row.addend + i));
        }
        V::store(x + i, value);
        return V::add(sum, value);
      },
      [&](int64_t i) {
        return x[i] = row.src[i] + (row.addend != nullptr ? row.addend[i] : 0.0f);
      });
  const float mean = total / count;
  const Vector minus_mean = V::set1(-mean);
  const float squares = sum_over<V>(
      row.columns,
      [&](int64_t i, Vector sum) __attribute__((always_inline)) {
        const Vector distance = V::add(V::load(x + i), minus_mean);
        return V::fma(distance, distance, sum);
      },
      [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const float inverse = 1.0f / std::sqrt(squares / count + row.epsilon);
  const Vector scale = V::set1(inverse);
  int64_t i = 0;
  for (; i + V::kLanes <= row.columns; i += V::kLanes) {
    Vector value = V::multiply(V::add(V::load(x + i), minus_mean), scale);
    if (row.gamma != nullptr) {
      value = V::fma(value, V::load(row.gamma + i), V::load(row.beta + i));
    }
    V::store(row.dst + i, value);
  }
  for (; i < row.columns; ++i) {
    const float value = (x[i] - mean) * inverse;
    row.dst[i] = row.gamma != nullptr ? std::fma(value, row.gamma[i], row.beta[i]) : value;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
