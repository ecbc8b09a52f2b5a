#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/half.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

struct Problem {
  int64_t rows, columns;
  bool add = false, sum = false, affine = true, bf16 = false;
  float offset = 0.0f, spread = 1.0f;
};

size_t size(int64_t count) { return static_cast<size_t>(count); }

// Numbers in memory, as bf16 or as floats, with access to their values.
struct Numbers {
  Numbers(int64_t count, bool halves) : bf16(halves), floats(size(count)), words(size(count)) {}

  void set(size_t i, float value) {
    words[i] = float_to_bf16(value);
    floats[i] = bf16 ? bf16_to_float(words[i]) : value;
  }
  float get(size_t i) const { return bf16 ? bf16_to_float(words[i]) : floats[i]; }
  void* data() { return bf16 ? static_cast<void*>(words.data()) : floats.data(); }

  bool bf16;
  GuardedVector<float> floats;
  GuardedVector<uint16_t> words;
};

void check(const Problem& p, LayerNormFunction* function) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(p.offset, p.spread);
  const int64_t count = p.rows * p.columns;
  Numbers src(count, p.bf16), addend(count, p.bf16), sum(count, p.bf16), dst(count, p.bf16);
  for (size_t i = 0; i < size(count); ++i) {
    src.set(i, normal(random));
    addend.set(i, normal(random));
  }
  GuardedVector<float> gamma(size(p.columns)), beta(size(p.columns));
  std::generate(gamma.begin(), gamma.end(), [&] { return normal(random); });
  std::generate(beta.begin(), beta.end(), [&] { return normal(random); });
  LayerNormCall call;
  call.rows = p.rows;
  call.columns = p.columns;
  call.type = p.bf16 ? DataType::bf16 : DataType::f32;
  call.src = src.data();
  call.addend = p.add ? addend.data() : nullptr;
  call.sum = p.sum ? sum.data() : nullptr;
  call.dst = dst.data();
  call.gamma = p.affine ? gamma.data() : nullptr;
  call.beta = p.affine ? beta.data() : nullptr;
  layer_norm(call, function);
  for (int64_t r = 0; r < p.rows; ++r) {
    GuardedVector<double> x;
    double mean = 0, variance = 0, farthest = 0;
    for (int64_t c = 0; c < p.columns; ++c) {
      const size_t i = size(r * p.columns + c);
      const float value = src.get(i) + (p.add ? addend.get(i) : 0.0f);
      x.push_back(static_cast<double>(value));
      mean += x.back() / static_cast<double>(p.columns);
      if (p.sum) {
        const float rounded = p.bf16 ? bf16_to_float(float_to_bf16(value)) : value;
        ASSERT_EQ(sum.get(i), rounded);
      }
    }
    for (const double value : x) {
      variance += (value - mean) * (value - mean) / static_cast<double>(p.columns);
      farthest = std::max(farthest, std::fabs(value - mean));
    }
    const double deviation = std::sqrt(variance + static_cast<double>(call.epsilon));
    for (int64_t c = 0; c < p.columns; ++c) {
      const double g = p.affine ? static_cast<double>(gamma[size(c)]) : 1.0;
      const double b = p.affine ? static_cast<double>(beta[size(c)]) : 0.0;
      const double expected = (x[size(c)] - mean) / deviation * g + b;
      // f32 loses precision of x before the mean is subtracted, which adds to the bound.
      const double largest = std::fabs(mean) / deviation;
      double bound =
          0x1p-18 * (1 + farthest / deviation + largest) * std::fabs(g) + 0x1p-22 * std::fabs(b);
      bound += p.bf16 ? 0x1p-8 * std::fabs(expected) + 1e-30 : 0.0;
      ASSERT_NEAR(static_cast<double>(dst.get(size(r * p.columns + c))), expected, bound)
          << "row " << r << ", column " << c << " of " << p.columns;
    }
  }
}

class LayerNormTest : public testing::TestWithParam<KernelRow<LayerNormFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, LayerNormTest, testing::ValuesIn(usable_rows(layer_norm_kernels())),
                         RowName());

TEST_P(LayerNormTest, EveryWidth) {
  for (int64_t columns = 1; columns <= 140; ++columns) {
    check({.rows = 3, .columns = columns}, GetParam().function);
    check({.rows = 2, .columns = columns, .add = true, .sum = true}, GetParam().function);
  }
}

TEST_P(LayerNormTest, AllForms) {
  for (const bool bf16 : {false, true}) {
    for (const bool add : {false, true}) {
      for (const bool affine : {false, true}) {
        for (const int64_t columns : {64, 77, 384, 768}) {
          check({.rows = 5, .columns = columns, .add = add, .affine = affine, .bf16 = bf16},
                GetParam().function);
          check({.rows = 5,
                 .columns = columns,
                 .add = add,
                 .sum = add,
                 .affine = affine,
                 .bf16 = bf16},
                GetParam().function);
        }
      }
    }
  }
}

TEST_P(LayerNormTest, FarFromZero) {
  check({.rows = 4, .columns = 768, .offset = 1000.0f}, GetParam().function);
  check({.rows = 4, .columns = 768, .offset = -3.0f, .spread = 1e-3f}, GetParam().function);
  check({.rows = 1, .columns = 65536, .offset = 5.0f}, GetParam().function);
}

TEST_P(LayerNormTest, QuantizesWhatItWrites) {
  constexpr int64_t kNumbers = 40 * 77;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(1.0f, 2.0f);
  GuardedVector<float> src(kNumbers), addend(kNumbers), sum(kNumbers), dst(kNumbers);
  std::generate(src.begin(), src.end(), [&] { return normal(random); });
  std::generate(addend.begin(), addend.end(), [&] { return normal(random); });
  GuardedVector<uint8_t> expected(kNumbers), beside(kNumbers), alone(kNumbers);
  LayerNormCall call;
  call.rows = 40;
  call.columns = 77;
  call.src = src.data();
  call.addend = addend.data();
  call.scale = 0.023f;
  call.zero_point = 119;
  call.dst = dst.data();
  call.bytes = beside.data();
  layer_norm(call, GetParam().function);
  quantize_u8(dst.data(), expected.data(), kNumbers, call.scale, call.zero_point);
  EXPECT_EQ(beside, expected);
  call.dst = nullptr;
  call.sum = sum.data();
  call.bytes = alone.data();
  layer_norm(call, GetParam().function);
  EXPECT_EQ(alone, expected);
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_EQ(sum[i], src[i] + addend[i]);
  }
}

TEST_P(LayerNormTest, InPlace) {
  GuardedVector<float> x(3 * 50), other(3 * 50), expected(3 * 50);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 13) - 4.0f;
    other[i] = static_cast<float>(i % 7);
  }
  LayerNormCall call;
  call.rows = 3;
  call.columns = 50;
  call.src = x.data();
  call.addend = other.data();
  call.dst = expected.data();
  layer_norm(call, GetParam().function);
  call.sum = other.data();
  call.dst = x.data();
  layer_norm(call, GetParam().function);
  EXPECT_EQ(x, expected);
}

}  // namespace
}  // namespace cpuaccel::kernels
