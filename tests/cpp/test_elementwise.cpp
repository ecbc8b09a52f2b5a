#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "exact_activation.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/half.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

using Op = ElementwiseOp;

class ElementwiseTest : public testing::TestWithParam<KernelRow<ElementwiseFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, ElementwiseTest,
                         testing::ValuesIn(usable_rows(elementwise_kernels())), RowName());

constexpr std::array kTypes{DataType::f32, DataType::bf16, DataType::f16};

// Elements of one of the types, between protected pages.
struct Elements {
  DataType type;
  GuardedVector<float> floats;
  GuardedVector<uint16_t> halves;

  Elements(DataType of, int64_t count, uint32_t seed) : type(of) {
    for (int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const float value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 21) - 4.0f;
      if (type == DataType::f32) {
        floats.push_back(value);
      } else {
        halves.push_back(type == DataType::bf16 ? float_to_bf16(value) : float_to_f16(value));
      }
    }
  }
  void* data() { return type == DataType::f32 ? static_cast<void*>(floats.data()) : halves.data(); }
  float operator[](int64_t i) { return element_to_float(data(), type, i); }
};

double exact(const ElementwiseStep& step, double a, double b) {
  switch (step.op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      return a / b;
    case Op::square:
      return a * a;
    case Op::exp:
      return std::exp(a);
    case Op::sigmoid:
      return 1 / (1 + std::exp(-a));
    case Op::tanh:
      return std::tanh(a);
    case Op::clamp:
      return std::clamp(a, static_cast<double>(step.low), static_cast<double>(step.high));
    case Op::activation:
      return exact_activation(step.activation, a);
  }
  return 0;
}

// A unit of the last place of 1, or of a value's type.
double relative(DataType type) {
  return type == DataType::f32 ? 0x1p-16 : type == DataType::f16 ? 0x1p-10 : 0x1p-7;
}

int64_t elements_of(const ElementwiseSizes& sizes, const ElementwiseSizes& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < kElementwiseDims; ++i) {
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

// Compares every element of a program's result with that in doubles. `in_place`: dst is operand 0.
void check(ElementwiseProgram program, ElementwiseFunction* row, bool in_place = false) {
  const ElementwiseProgram as_given = program;
  std::vector<Elements> operands;
  std::vector<const void*> data;
  int64_t count = 1;
  for (const int64_t size : program.sizes) {
    count *= size;
  }
  for (const auto& operand : program.operands) {
    operands.emplace_back(operand.type, elements_of(program.sizes, operand.strides),
                          static_cast<uint32_t>(operands.size() + 1));
  }
  for (auto& each : operands) {
    data.push_back(each.data());
  }
  Elements before = operands[0];
  Elements dst(program.type, count, 99);
  Elements& result = in_place ? operands[0] : dst;
  program.merge_dimensions();
  elementwise(program, data, result.data(), row);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<double> values;
    double magnitude = 1;
    for (size_t j = 0; j < operands.size(); ++j) {
      int64_t rest = i, offset = 0;
      for (size_t k = kElementwiseDims; k-- > 0; rest /= as_given.sizes[k]) {
        offset += rest % as_given.sizes[k] * as_given.operands[j].strides[k];
      }
      values.push_back(static_cast<double>(j == 0 ? before[offset] : operands[j][offset]));
    }
    for (const auto& step : as_given.steps) {
      values.push_back(exact(step, values[step.a], values[step.b]));
      magnitude = std::max(magnitude, std::fabs(values.back()));
    }
    ASSERT_NEAR(static_cast<double>(result[i]), values.back(), relative(as_given.type) * magnitude)
        << i;
  }
}

ElementwiseProgram of_run(DataType type, int64_t count, std::vector<ElementwiseStep> steps) {
  return {{1, 1, 1, 1, 1, count},
          {{type, {0, 0, 0, 0, 0, 1}}, {type, {0, 0, 0, 0, 0, 1}}},
          std::move(steps),
          type};
}

TEST_P(ElementwiseTest, EveryOpAndType) {
  for (const DataType type : kTypes) {
    for (const Op op :
         {Op::add, Op::subtract, Op::multiply, Op::square, Op::exp, Op::sigmoid, Op::tanh}) {
      check(of_run(type, 37, {{op, 0, 1}}), GetParam().function);
    }
    for (const Activation activation : kActivations) {
      check(of_run(type, 37, {{Op::activation, 0, 0, activation}}), GetParam().function);
    }
    check(of_run(type, 37, {{Op::clamp, 0, 0, Activation::none, -1.5f, 2.0f}}),
          GetParam().function);
    check(of_run(type, 37, {{Op::exp, 1}, {Op::divide, 0, 2}}), GetParam().function);
  }
}

TEST_P(ElementwiseTest, EveryCount) {
  for (int64_t count = 1; count < 40; ++count) {
    check(of_run(DataType::bf16, count, {{Op::add, 0, 1}}), GetParam().function, true);
  }
  for (const int64_t count : {511, 512, 513, 1500}) {
    check(of_run(DataType::f16, count, {{Op::multiply, 0, 1}}), GetParam().function);
  }
}

// x * sigmoid(x) * y + z, with y by rows and z by columns and permuted.
TEST_P(ElementwiseTest, BroadcastsAndStrides) {
  for (const DataType type : kTypes) {
    for (const int64_t columns : {1, 5, 64, 600}) {
      const ElementwiseProgram program{
          {1, 2, 3, 2, 7, columns},
          {{type, {0, 42 * columns, 14 * columns, 7 * columns, columns, 1}},
           {DataType::f32, {0, 0, 0, 0, 1, 0}},
           {type, {0, 6 * columns, 2 * columns, columns, 0, 1}},
           {type, {0, 42, 1, 21, 3, 84}}},
          {{Op::sigmoid, 0},
           {Op::multiply, 0, 4},
           {Op::multiply, 5, 1},
           {Op::add, 6, 2},
           {Op::subtract, 7, 3}},
          type};
      check(program, GetParam().function);
      check(program, GetParam().function, true);
    }
  }
}

TEST_P(ElementwiseTest, CopiesWithoutSteps) {
  const ElementwiseProgram program{
      {1, 1, 1, 5, 9, 16}, {{DataType::f16, {0, 0, 0, 16, 80, 1}}}, {}, DataType::f16};
  check(program, GetParam().function);
}

TEST_P(ElementwiseTest, TanhNearZeroAndFarAndNan) {
  GuardedVector<float> src{0.0f,         1e-30f, -1e-6f,
                           0.01f,        6.4f,   -6.6f,
                           30.0f,        1e30f,  std::numeric_limits<float>::infinity(),
                           std::nanf("")};
  GuardedVector<float> dst(src.size());
  const ElementwiseProgram program = [&] {
    auto result = of_run(DataType::f32, static_cast<int64_t>(src.size()), {{Op::tanh, 0}});
    result.operands.pop_back();
    result.steps[0].a = 0;
    return result;
  }();
  const std::array<const void*, 1> operands{src.data()};
  elementwise(program, operands, dst.data(), GetParam().function);
  for (size_t i = 0; i + 1 < src.size(); ++i) {
    const double expected = std::tanh(static_cast<double>(src[i]));
    EXPECT_NEAR(static_cast<double>(dst[i]), expected, 0x1p-17 * std::fabs(expected)) << src[i];
  }
  EXPECT_TRUE(std::isnan(dst.back()));
  GetParam().function({Op::clamp, src.data(), src.data(), dst.data(),
                       static_cast<int64_t>(src.size()), -1.0f, 1.0f});
  EXPECT_EQ(dst[dst.size() - 2], 1.0f);
  EXPECT_TRUE(std::isnan(dst.back()));
}

TEST(Elementwise, Nothing) {
  const auto program = of_run(DataType::bf16, 0, {{Op::add, 0, 1}});
  const std::array<const void*, 2> operands{};
  elementwise(program, operands, nullptr);
}

TEST(Elementwise, MergesDimensions) {
  ElementwiseProgram program{
      {2, 3, 1, 4, 5, 6},
      {{DataType::f32, {360, 120, 77, 30, 6, 1}}, {DataType::f32, {0, 0, 9, 30, 6, 1}}},
      {{Op::add, 0, 1}},
      DataType::f32};
  program.merge_dimensions();
  EXPECT_EQ(program.sizes, (ElementwiseSizes{1, 1, 1, 1, 6, 120}));
  EXPECT_EQ(program.operands[0].strides, (ElementwiseSizes{0, 0, 0, 0, 120, 1}));
  EXPECT_EQ(program.operands[1].strides, (ElementwiseSizes{0, 0, 0, 0, 0, 1}));
}

TEST(Elementwise, ThreadsDoNotMatter) {
  const Threads threads(4);
  check(of_run(DataType::bf16, 70000, {{Op::add, 0, 1}}),
        first_usable(elementwise_kernels()).function);
}

TEST(ElementwiseList, EndsInRef) { EXPECT_EQ(elementwise_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
