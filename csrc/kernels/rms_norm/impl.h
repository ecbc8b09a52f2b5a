// RMS normalization of one row, templated on the vector type. Included by ISA files.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/float_vectors/sum_over.h"
#include "kernels/rms_norm/rms_norm.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
void rms_norm_row(const RmsNormRow& row) {
  using Vector = typename V::Vector;
  float* const x = row.x;
  const float squares = sum_over<V>(
      row.columns,
      [&](int64_t i, Vector sum) __attribute__((always_inline)) {
        Vector value = V::load(row.src + i);
        if (row.addend != nullptr) {
          value = V::add(value, V::load(row.addend + i));
        }
        V::store(x + i, value);
        return V::fma(value, value, sum);
      },
      [&](int64_t i) {
        x[i] = row.src[i] + (row.addend != nullptr ? row.addend[i] : 0.0f);
        return x[i] * x[i];
      });
  const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(row.columns) + row.epsilon);
  const Vector scale = V::set1(inverse), offset = V::set1(row.weight_offset);
  int64_t i = 0;
  for (; i + V::kLanes <= row.columns; i += V::kLanes) {
    Vector value = V::multiply(V::load(x + i), scale);
    if (row.weights != nullptr) {
      value = V::multiply(value, V::add(V::load(row.weights + i), offset));
    }
    V::store(row.dst + i, value);
  }
  for (; i < row.columns; ++i) {
    const float weight = row.weights != nullptr ? row.weights[i] + row.weight_offset : 1.0f;
    row.dst[i] = x[i] * inverse * weight;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
