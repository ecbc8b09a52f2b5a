#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/binary/binary.h"

namespace cpuaccel::kernels {
namespace {

using Bytes = GuardedVector<uint8_t>;

constexpr std::array kOps{BinaryOp::add, BinaryOp::mul};

struct Case {
  const char* name;
  BinaryOp op;
  BinaryFunction* function;
  BinaryFunction* reference;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const auto op : kOps) {
    const auto rows = binary_kernels(op);
    for (const auto& row : usable_rows(rows)) {
      result.push_back({row.name, op, row.function, rows.back().function});
    }
  }
  return result;
}

struct CaseName {
  std::string operator()(const testing::TestParamInfo<Case>& info) const {
    return std::string(info.param.op == BinaryOp::add ? "add_" : "mul_") + info.param.name;
  }
};

class BinaryTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Rows, BinaryTest, testing::ValuesIn(cases()), CaseName());

// Every pair of bytes; those of a vary fastest.
struct Pairs {
  Bytes a = Bytes(65536);
  Bytes b = Bytes(65536);
  Pairs() {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<uint8_t>(i % 256);
      b[i] = static_cast<uint8_t>(i / 256);
    }
  }
};

BinaryQuantizers random_quantizers(std::mt19937& generator, BinaryOp op) {
  std::uniform_real_distribution<float> scale(0.003f, 0.2f);
  std::uniform_int_distribution<int32_t> zero_point(0, 255);
  BinaryQuantizers q{};
  q.scale_a = scale(generator);
  q.scale_b = scale(generator);
  q.scale = scale(generator) * (op == BinaryOp::mul ? 10.0f : 1.0f);
  q.zero_point_a = zero_point(generator);
  q.zero_point_b = zero_point(generator);
  q.zero_point = zero_point(generator);
  q.relu = zero_point(generator) % 2 == 0;
  return q;
}

// real / scale in float64, of the float32 scales.
double quanta(BinaryOp op, int a, int b, const BinaryQuantizers& q) {
  const double real_a = static_cast<double>(q.scale_a) * (a - q.zero_point_a);
  const double real_b = static_cast<double>(q.scale_b) * (b - q.zero_point_b);
  return (op == BinaryOp::add ? real_a + real_b : real_a * real_b) / q.scale;
}

int limited(double value, const BinaryQuantizers& q) {
  const double result = std::nearbyint(value) + q.zero_point;
  return static_cast<int>(std::fmin(std::fmax(result, q.relu ? q.zero_point : 0), 255.0));
}

TEST_P(BinaryTest, EveryPairIsTheReferences) {
  std::mt19937 generator(11);
  const Pairs pairs;
  for (int i = 0; i < 20; ++i) {
    const auto q = random_quantizers(generator, GetParam().op);
    Bytes dst(pairs.a.size());
    Bytes expected(pairs.a.size());
    GetParam().function(pairs.a.data(), pairs.b.data(), dst.data(), 65536, q);
    GetParam().reference(pairs.a.data(), pairs.b.data(), expected.data(), 65536, q);
    EXPECT_EQ(dst, expected) << i;
  }
}

TEST_P(BinaryTest, EveryPairIsRoundedFloat64) {
  std::mt19937 generator(12);
  const Pairs pairs;
  for (int i = 0; i < 20; ++i) {
    const auto q = random_quantizers(generator, GetParam().op);
    // The error of float32 before rounding, in quanta: some units in the last place of the largest
    // intermediate number.
    const double largest = GetParam().op == BinaryOp::add
                               ? 255.0 * (q.scale_a + q.scale_b) / q.scale
                               : 65025.0 * q.scale_a * q.scale_b / q.scale;
    const double slack = std::fmax(1e-4, largest * std::ldexp(1.0, -22));
    Bytes dst(pairs.a.size());
    GetParam().function(pairs.a.data(), pairs.b.data(), dst.data(), 65536, q);
    int wrong = 0;
    int differing = 0;
    for (size_t k = 0; k < dst.size(); ++k) {
      const double value = quanta(GetParam().op, pairs.a[k], pairs.b[k], q);
      wrong += dst[k] < limited(value - slack, q) || dst[k] > limited(value + slack, q);
      differing += dst[k] != limited(value, q);
    }
    EXPECT_EQ(wrong, 0) << i;
    EXPECT_LE(differing, 66) << i;  // 0.1 %
  }
}

TEST_P(BinaryTest, TiesGoToEvenBeforeTheZeroPoint) {
  const BinaryQuantizers q{0.5f, 0.5f, 1.0f, 0, 0, 7, false};
  const Bytes a{1, 3, 5, 7, 2, 4};
  const Bytes b{0, 0, 0, 0, 1, 1};
  Bytes dst(a.size());
  if (GetParam().op == BinaryOp::add) {
    GetParam().function(a.data(), b.data(), dst.data(), 6, q);
    EXPECT_EQ(dst, (Bytes{7, 9, 9, 11, 9, 9}));
  } else {
    const BinaryQuantizers product{1.0f, 1.0f, 2.0f, 0, 0, 7, false};
    GetParam().function(a.data(), Bytes(6, 1).data(), dst.data(), 6, product);
    EXPECT_EQ(dst, (Bytes{7, 9, 9, 11, 8, 9}));
  }
}

TEST_P(BinaryTest, EveryLengthAndInPlace) {
  std::mt19937 generator(13);
  for (int64_t count = 0; count <= 200; ++count) {
    const auto q = random_quantizers(generator, GetParam().op);
    Bytes a(static_cast<size_t>(count)), b(static_cast<size_t>(count));
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<uint8_t>(generator());
      b[i] = static_cast<uint8_t>(generator());
    }
    Bytes expected(a.size());
    GetParam().reference(a.data(), b.data(), expected.data(), count, q);
    Bytes dst(a.size() + 1, 0xa5);
    GetParam().function(a.data(), b.data(), dst.data(), count, q);
    EXPECT_EQ(dst.back(), 0xa5) << "wrote past the end at length " << count;
    dst.pop_back();
    EXPECT_EQ(dst, expected) << count;
    Bytes over_a = a;
    GetParam().function(over_a.data(), b.data(), over_a.data(), count, q);
    EXPECT_EQ(over_a, expected) << count;
    Bytes over_b = b;
    GetParam().function(a.data(), over_b.data(), over_b.data(), count, q);
    EXPECT_EQ(over_b, expected) << count;
  }
}

TEST_P(BinaryTest, OperandsCommute) {
  std::mt19937 generator(14);
  const Pairs pairs;
  const auto q = random_quantizers(generator, GetParam().op);
  Bytes one(65536), other(65536);
  GetParam().function(pairs.a.data(), pairs.b.data(), one.data(), 65536, q);
  GetParam().function(pairs.b.data(), pairs.a.data(), other.data(), 65536, swapped(q));
  EXPECT_EQ(one, other);
}

class BroadcastTest : public testing::TestWithParam<BinaryOp> {};

INSTANTIATE_TEST_SUITE_P(Ops, BroadcastTest, testing::ValuesIn(kOps));

Bytes random_bytes(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  Bytes bytes(static_cast<size_t>(count));
  for (auto& value : bytes) {
    value = static_cast<uint8_t>(generator());
  }
  return bytes;
}

TEST_P(BroadcastTest, RowsOfManyWidths) {
  std::mt19937 generator(15);
  for (const int64_t columns : {1, 2, 3, 8, 16, 24, 31, 32, 58, 72, 96, 120, 257, 960}) {
    for (const int64_t rows : {1, 2, 9, 49, 200}) {
      const BinaryRows shape{2, rows, columns};
      const auto q = random_quantizers(generator, GetParam());
      const int64_t count = shape.images * rows * columns;
      const auto a = random_bytes(count, 1);
      const auto b = random_bytes(shape.images * columns, 2);
      Bytes spread(a.size());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t image = i / (rows * columns);
        spread[static_cast<size_t>(i)] = b[static_cast<size_t>(image * columns + i % columns)];
      }
      Bytes dst(a.size() + 1, 0xa5), expected(a.size());
      binary_rows_u8(GetParam(), a.data(), b.data(), dst.data(), shape, q);
      binary_u8(GetParam(), a.data(), spread.data(), expected.data(), count, q);
      EXPECT_EQ(dst.back(), 0xa5) << rows << " " << columns;
      dst.pop_back();
      EXPECT_EQ(dst, expected) << rows << " " << columns;
    }
  }
}

TEST_P(BroadcastTest, MoreRowsThanOneThreadsShare) {
  std::mt19937 generator(16);
  const BinaryRows shape{1, 3001, 72};
  const auto q = random_quantizers(generator, GetParam());
  const auto a = random_bytes(shape.rows * shape.columns, 3);
  const auto b = random_bytes(shape.columns, 4);
  Bytes dst(a.size()), expected(a.size());
  binary_rows_u8(GetParam(), a.data(), b.data(), dst.data(), shape, q);
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t at = row * shape.columns;
    binary_u8(GetParam(), a.data() + at, b.data(), expected.data() + at, shape.columns, q);
  }
  EXPECT_EQ(dst, expected);
}

TEST_P(BroadcastTest, OneValue) {
  std::mt19937 generator(17);
  for (int value = 0; value < 256; value += 15) {
    const auto q = random_quantizers(generator, GetParam());
    const auto a = random_bytes(1000, 5);
    Bytes dst(a.size()), expected(a.size());
    const Bytes b(a.size(), static_cast<uint8_t>(value));
    binary_value_u8(GetParam(), a.data(), b[0], dst.data(), 1000, q);
    binary_u8(GetParam(), a.data(), b.data(), expected.data(), 1000, q);
    EXPECT_EQ(dst, expected) << value;
  }
}

TEST_P(BroadcastTest, NothingToDo) {
  const BinaryQuantizers q{1.0f, 1.0f, 1.0f, 0, 0, 0, false};
  for (const BinaryRows shape : {BinaryRows{0, 4, 4}, BinaryRows{4, 0, 4}, BinaryRows{4, 4, 0}}) {
    binary_rows_u8(GetParam(), nullptr, nullptr, nullptr, shape, q);
  }
  binary_value_u8(GetParam(), nullptr, 3, nullptr, 0, q);
}

TEST(BinaryRange, WhatOverflowsIsSeen) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto op : kOps) {
    EXPECT_TRUE(in_range(op, {0.1f, 0.1f, 0.1f, 0, 0, 0, false}));
    EXPECT_FALSE(in_range(op, {1e6f, 1e6f, 1e-3f, 0, 0, 0, false}));
    EXPECT_FALSE(in_range(op, {1.0f, 1.0f, 1e-40f, 0, 0, 0, false}));
    EXPECT_FALSE(in_range(op, {0.1f, 0.1f, -0.1f, 0, 0, 0, false}));
    EXPECT_FALSE(in_range(op, {0.1f, -0.1f, 0.1f, 0, 0, 0, false}));
    EXPECT_FALSE(in_range(op, {infinity, 1.0f, 1.0f, 0, 0, 0, false}));
    EXPECT_FALSE(in_range(op, {1.0f, 1.0f, std::nanf(""), 0, 0, 0, false}));
  }
}

TEST(BinaryList, EndsInRef) {
  for (const auto op : kOps) {
    EXPECT_EQ(binary_kernels(op).back().isa, Isa::ref);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
