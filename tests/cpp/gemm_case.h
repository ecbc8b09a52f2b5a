// Test case of gemm: random matrices, a call, and the check of its result.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "guarded.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {

// How the elements of a matrix lie: by rows, by columns, every other one of a larger matrix, or one
// row, column or element repeated.
enum class Layout { rows, columns, spread, same_row, same_column, one };

inline const char* layout_name(Layout layout) {
  constexpr const char* kNames[] = {"rows", "columns", "spread", "same_row", "same_column", "one"};
  return kNames[static_cast<size_t>(layout)];
}

// A matrix with its own memory, which ends right after its last element.
class TestMatrix {
 public:
  TestMatrix(int64_t batch, int64_t rows, int64_t columns, DataType type, Layout layout)
      : type_(type) {
    switch (layout) {
      case Layout::rows:
        strides(columns, 1);
        break;
      case Layout::columns:
        strides(1, rows);
        break;
      case Layout::spread:
        strides(2 * columns + 3, 2);
        break;
      case Layout::same_row:
        strides(0, 1);
        break;
      case Layout::same_column:
        strides(1, 0);
        break;
      case Layout::one:
        strides(0, 0);
        break;
    }
    const int64_t extent =
        rows * columns == 0 ? 0 : (rows - 1) * row_stride_ + (columns - 1) * column_stride_ + 1;
    batch_stride_ = extent;
    bytes_.resize(static_cast<size_t>(extent * batch * data_type_size(type)));
  }

  void fill(std::mt19937& generator) {
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (int64_t i = 0; i < size(); ++i) {
      float_to_element(uniform(generator), bytes_.data(), type_, i);
    }
  }
  void fill(float value) {
    for (int64_t i = 0; i < size(); ++i) {
      float_to_element(value, bytes_.data(), type_, i);
    }
  }

  int64_t size() const { return static_cast<int64_t>(bytes_.size()) / data_type_size(type_); }
  int64_t index(int64_t g, int64_t i, int64_t j) const {
    return g * batch_stride_ + i * row_stride_ + j * column_stride_;
  }
  float at(int64_t g, int64_t i, int64_t j) const {
    return element_to_float(bytes_.data(), type_, index(g, i, j));
  }
  void set(int64_t g, int64_t i, int64_t j, float value) {
    float_to_element(value, bytes_.data(), type_, index(g, i, j));
  }

  GemmMatrix matrix() const {
    return {bytes_.data(), type_, row_stride_, column_stride_, batch_stride_};
  }
  GemmDst dst() { return {bytes_.data(), type_, row_stride_, batch_stride_}; }
  const GuardedVector<char>& bytes() const { return bytes_; }

 private:
  void strides(int64_t row, int64_t column) {
    row_stride_ = row;
    column_stride_ = column;
  }

  DataType type_;
  int64_t row_stride_ = 0, column_stride_ = 0, batch_stride_ = 0;
  GuardedVector<char> bytes_;
};

struct GemmShape {
  int64_t M, N, K;
  int64_t batch = 1;
};

struct GemmOptions {
  DataType a = DataType::f32, b = DataType::f32, dst = DataType::f32;
  Layout a_layout = Layout::rows, b_layout = Layout::rows;
  float alpha = 1.0f, beta = 0.0f;
  GemmBiasAxis bias = GemmBiasAxis::none;
  DataType bias_type = DataType::f32;
  bool bf16_arithmetic = false;  // of family gemm_bf16
};

inline std::string to_text(const GemmShape& s, const GemmOptions& o) {
  return std::to_string(s.batch) + "x" + std::to_string(s.M) + "x" + std::to_string(s.N) + "x" +
         std::to_string(s.K) + " a " + std::to_string(int(o.a)) + " " + layout_name(o.a_layout) +
         " b " + std::to_string(int(o.b)) + " " + layout_name(o.b_layout) + " dst " +
         std::to_string(int(o.dst)) + " alpha " + std::to_string(o.alpha) + " beta " +
         std::to_string(o.beta) + " bias " + std::to_string(int(o.bias));
}

class GemmCase {
 public:
  GemmCase(const GemmShape& of, const GemmOptions& with)
      : shape(of),
        options(with),
        a(shape.batch, shape.M, shape.K, options.a, options.a_layout),
        b(shape.batch, shape.K, shape.N, options.b, options.b_layout),
        dst(shape.batch, shape.M, shape.N, options.dst, Layout::rows),
        bias(1, 1, options.bias == GemmBiasAxis::m ? shape.M : shape.N, options.bias_type,
             Layout::rows) {
    std::mt19937 generator(1);
    a.fill(generator);
    b.fill(generator);
    bias.fill(generator);
    if (options.beta != 0.0f) {
      dst.fill(generator);
    } else {
      dst.fill(std::nanf(""));  // must not be read
    }
    before = dst;
  }

  GemmCall call() {
    GemmCall result;
    result.M = shape.M;
    result.N = shape.N;
    result.K = shape.K;
    result.batch = shape.batch;
    result.a = a.matrix();
    result.b = b.matrix();
    result.dst = dst.dst();
    result.alpha = options.alpha;
    result.beta = options.beta;
    result.bias = {bias.matrix().data, options.bias_type, options.bias};
    return result;
  }

  // Checks every element against sums in double and the bound of gemm.h.
  void check() const {
    for (int64_t g = 0; g < shape.batch; ++g) {
      const auto rows = operands(shape.M, [&](int64_t m, int64_t k) { return a.at(g, m, k); });
      const auto columns = operands(shape.N, [&](int64_t n, int64_t k) { return b.at(g, k, n); });
      for (int64_t m = 0; m < shape.M; ++m) {
        for (int64_t n = 0; n < shape.N; ++n) {
          check(g, m, n, rows.data() + m * shape.K, columns.data() + n * shape.K);
          if (testing::Test::HasFailure()) {
            return;
          }
        }
      }
    }
  }

  const GemmShape shape;
  const GemmOptions options;
  TestMatrix a, b, dst, bias;
  TestMatrix before = dst;

 private:
  // Returns `count` vectors of length K as they are multiplied. An emulated CPU would take minutes
  // to look them up for each result.
  template <typename At>
  GuardedVector<double> operands(int64_t count, const At& at) const {
    GuardedVector<double> values;
    values.reserve(static_cast<size_t>(count * shape.K));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = 0; k < shape.K; ++k) {
        const float value = at(i, k);
        values.push_back(options.bf16_arithmetic ? bf16_to_float(float_to_bf16(value)) : value);
      }
    }
    return values;
  }

  void check(int64_t g, int64_t m, int64_t n, const double* row, const double* column) const {
    double sum = 0, magnitude = 0;
    const auto add = [&](double term) {
      sum += term;
      magnitude += std::fabs(term);
    };
    if (options.beta != 0.0f) {
      add(static_cast<double>(options.beta) * before.at(g, m, n));
    }
    if (options.bias != GemmBiasAxis::none) {
      add(bias.at(0, 0, options.bias == GemmBiasAxis::m ? m : n));
    }
    for (int64_t k = 0; k < shape.K && options.alpha != 0.0f; ++k) {
      add(static_cast<double>(options.alpha) * row[k] * column[k]);
    }
    // Half a unit in the last place of the rounded type: 2^-8 for bf16, 2^-11 for f16.
    const double rounding = options.dst == DataType::f32    ? 0
                            : options.dst == DataType::bf16 ? 0x1p-8
                                                            : 0x1p-11;
    const double bound = static_cast<double>(shape.K + 4) * 0x1p-24 * (1 + 0x1p-10) * magnitude;
    const double allowed =
        bound + (std::fabs(sum) + bound) * rounding + (options.dst == DataType::f16 ? 0x1p-25 : 0);
    const double got = dst.at(g, m, n);
    ASSERT_LE(std::fabs(got - sum), allowed) << to_text(shape, options) << " at " << g << " " << m
                                             << " " << n << ": " << got << " expected " << sum;
  }
};

}  // namespace cpuaccel::kernels
