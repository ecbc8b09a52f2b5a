#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "kernel_rows.h"
#include "kernels/function_f32/function_f32.h"

namespace cpuaccel::kernels {
namespace {

class FunctionF32Test : public testing::TestWithParam<KernelRow<FunctionF32Function>> {};

INSTANTIATE_TEST_SUITE_P(Rows, FunctionF32Test,
                         testing::ValuesIn(usable_rows(function_f32_kernels())), RowName());

constexpr FloatFunction kAll[] = {FloatFunction::relu, FloatFunction::hardswish,
                                  FloatFunction::silu, FloatFunction::gelu,
                                  FloatFunction::gelu_tanh};

double exact(FloatFunction function, double x) {
  switch (function) {
    case FloatFunction::relu:
      return std::max(x, 0.0);
    case FloatFunction::hardswish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case FloatFunction::silu:
      return x / (1.0 + std::exp(-x));
    case FloatFunction::gelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case FloatFunction::gelu_tanh:
      return x * 0.5 *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

void check(FunctionF32Function* row, const std::vector<float>& src) {
  for (const FloatFunction function : kAll) {
    std::vector<float> values = src;
    row(function, values.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < src.size(); ++i) {
      const auto x = static_cast<double>(src[i]);
      ASSERT_NEAR(static_cast<double>(values[i]), exact(function, x),
                  std::max(0x1p-20 * std::fabs(x), 1e-36))
          << "function " << static_cast<int>(function) << " of " << src[i];
    }
  }
}

TEST_P(FunctionF32Test, EveryCount) {
  for (size_t count = 0; count <= 40; ++count) {
    std::vector<float> src(count);
    for (size_t i = 0; i < count; ++i) {
      src[i] = 0.37f * static_cast<float>(i) - 6.0f;
    }
    check(GetParam().function, src);
  }
}

TEST_P(FunctionF32Test, EveryMagnitude) {
  std::vector<float> src;
  for (float value = 1e-30f; value < 1e12f; value *= 1.03f) {
    src.push_back(value);
    src.push_back(-value);
  }
  for (float value = -20.0f; value < 20.0f; value += 0.00171f) {
    src.push_back(value);
  }
  check(GetParam().function, src);
}

TEST_P(FunctionF32Test, WhatIsNotFinite) {
  for (const FloatFunction function : kAll) {
    std::vector<float> values{std::numeric_limits<float>::infinity(), std::nanf(""), 0.0f};
    GetParam().function(function, values.data(), 3);
    EXPECT_EQ(values[0], std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(values[1]));
    EXPECT_EQ(values[2], 0.0f);
  }
}

TEST(FunctionF32List, EndsInRef) { EXPECT_EQ(function_f32_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
