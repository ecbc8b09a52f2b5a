#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/quantize/quantize.h"
#include "kernels/rms_norm/rms_norm.h"
#include "typed_numbers.h"

namespace cpuaccel::kernels {
namespace {

struct Problem {
  int64_t rows, columns;
  DataType type = DataType::f32;
  bool add = false, sum = false, weighted = true;
  float weight_offset = 0.0f;
};

void check(const Problem& p, RmsNormFunction* function) {
  const int64_t count = p.rows * p.columns;
  auto src = TypedNumbers::normal(count, p.type, 1),
       addend = TypedNumbers::normal(count, p.type, 2);
  TypedNumbers sum(count, p.type), dst(count, p.type);
  const auto weights = TypedNumbers::normal(p.columns, DataType::f32, 3);
  RmsNormCall call;
  call.rows = p.rows;
  call.columns = p.columns;
  call.type = p.type;
  call.src = src.data();
  call.addend = p.add ? addend.data() : nullptr;
  call.sum = p.sum ? sum.data() : nullptr;
  call.dst = dst.data();
  call.weights = p.weighted ? weights.floats() : nullptr;
  call.weight_offset = p.weight_offset;
  rms_norm(call, function);
  for (int64_t r = 0; r < p.rows; ++r) {
    double squares = 0;
    const auto x = [&](int64_t c) {
      const int64_t i = r * p.columns + c;
      return src.get(i) + (p.add ? addend.get(i) : 0.0f);
    };
    for (int64_t c = 0; c < p.columns; ++c) {
      const auto value = static_cast<double>(x(c));
      squares += value * value / static_cast<double>(p.columns);
      if (p.sum) {
        TypedNumbers rounded(1, p.type);
        rounded.set(0, x(c));
        ASSERT_EQ(sum.get(r * p.columns + c), rounded.get(0));
      }
    }
    const double root = std::sqrt(squares + static_cast<double>(call.epsilon));
    for (int64_t c = 0; c < p.columns; ++c) {
      const float weight = p.weighted ? weights.get(c) + p.weight_offset : 1.0f;
      const double expected = static_cast<double>(x(c)) / root * static_cast<double>(weight);
      const double bound = 0x1p-20 * std::abs(expected) + rounding_error(p.type, expected);
      ASSERT_NEAR(dst.exact(r * p.columns + c), expected, bound)
          << "row " << r << ", column " << c << " of " << p.columns;
    }
  }
}

class RmsNormTest : public testing::TestWithParam<KernelRow<RmsNormFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, RmsNormTest, testing::ValuesIn(usable_rows(rms_norm_kernels())),
                         RowName());

TEST_P(RmsNormTest, EveryWidth) {
  for (int64_t columns = 1; columns <= 140; ++columns) {
    check({.rows = 3, .columns = columns}, GetParam().function);
    check({.rows = 2, .columns = columns, .add = true, .sum = true}, GetParam().function);
  }
}

TEST_P(RmsNormTest, AllForms) {
  for (const DataType type : kFloatTypes) {
    for (const bool add : {false, true}) {
      for (const bool weighted : {false, true}) {
        for (const int64_t columns : {64, 77, 896}) {
          check({.rows = 5,
                 .columns = columns,
                 .type = type,
                 .add = add,
                 .sum = add,
                 .weighted = weighted,
                 .weight_offset = 1.0f},
                GetParam().function);
        }
      }
    }
  }
}

TEST_P(RmsNormTest, Wide) { check({.rows = 1, .columns = 65536}, GetParam().function); }

TEST_P(RmsNormTest, QuantizesWhatItWrites) {
  constexpr int64_t kNumbers = 10 * 77;
  auto src = TypedNumbers::normal(kNumbers, DataType::f32, 3);
  TypedNumbers dst(kNumbers, DataType::f32);
  GuardedVector<uint8_t> expected(kNumbers), beside(kNumbers), alone(kNumbers);
  RmsNormCall call;
  call.rows = 10;
  call.columns = 77;
  call.src = src.data();
  call.scale = 0.023f;
  call.zero_point = 119;
  call.dst = dst.data();
  call.bytes = beside.data();
  rms_norm(call, GetParam().function);
  quantize_u8(dst.floats(), expected.data(), kNumbers, call.scale, call.zero_point);
  EXPECT_EQ(beside, expected);
  call.dst = nullptr;
  call.bytes = alone.data();
  rms_norm(call, GetParam().function);
  EXPECT_EQ(alone, expected);
}

TEST_P(RmsNormTest, InPlace) {
  auto x = TypedNumbers::normal(3 * 50, DataType::f32, 1);
  auto other = TypedNumbers::normal(3 * 50, DataType::f32, 2);
  TypedNumbers expected(3 * 50, DataType::f32);
  RmsNormCall call;
  call.rows = 3;
  call.columns = 50;
  call.src = x.data();
  call.addend = other.data();
  call.dst = expected.data();
  rms_norm(call, GetParam().function);
  call.sum = other.data();
  call.dst = x.data();
  rms_norm(call, GetParam().function);
  EXPECT_EQ(x, expected);
}

}  // namespace
}  // namespace cpuaccel::kernels
