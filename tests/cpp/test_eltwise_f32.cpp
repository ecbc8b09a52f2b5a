#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "exact_activation.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/eltwise_f32/eltwise_f32.h"

namespace cpuaccel::kernels {
namespace {

class EltwiseF32Test : public testing::TestWithParam<KernelRow<EltwiseF32Function>> {};

INSTANTIATE_TEST_SUITE_P(Rows, EltwiseF32Test,
                         testing::ValuesIn(usable_rows(eltwise_f32_kernels())), RowName());

void check(EltwiseF32Function* row, const GuardedVector<float>& src) {
  for (const Activation activation : kActivations) {
    GuardedVector<float> values = src;
    row(activation, values.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < src.size(); ++i) {
      const auto x = static_cast<double>(src[i]);
      ASSERT_NEAR(static_cast<double>(values[i]), exact_activation(activation, x),
                  std::max(0x1p-20 * std::fabs(x), 1e-36))
          << activation_name(activation) << " of " << src[i];
    }
  }
}

TEST_P(EltwiseF32Test, EveryCount) {
  for (size_t count = 0; count <= 40; ++count) {
    GuardedVector<float> src(count);
    for (size_t i = 0; i < count; ++i) {
      src[i] = 0.37f * static_cast<float>(i) - 6.0f;
    }
    check(GetParam().function, src);
  }
}

TEST_P(EltwiseF32Test, EveryMagnitude) {
  GuardedVector<float> src;
  for (float value = 1e-30f; value < 1e12f; value *= 1.03f) {
    src.push_back(value);
    src.push_back(-value);
  }
  for (float value = -20.0f; value < 20.0f; value += 0.00171f) {
    src.push_back(value);
  }
  check(GetParam().function, src);
}

// The intervals of the piecewise polynomials end in here; the step is a few numbers.
TEST_P(EltwiseF32Test, DenselyWhereFunctionsBend) {
  GuardedVector<float> src;
  for (float value = -6.0f; value < 6.0f; value += 0x1p-14f) {
    src.push_back(value);
  }
  for (int i = 0; i < 20; ++i) {
    float value = 0.36f * (static_cast<float>(i) + 0.5f) - 0x1p-16f;
    for (int j = 0; j < 200; ++j) {
      value = std::nextafter(value, 10.0f);
      src.push_back(value);
      src.push_back(-value);
    }
  }
  check(GetParam().function, src);
}

// Arithmetic on denormals takes a hundred times as long.
TEST_P(EltwiseF32Test, GeluOfLargeNumbersIsNotDenormal) {
  if (GetParam().isa == Isa::ref) {
    GTEST_SKIP()
        << "gelu_ref (activations_ref.h) multiplies by erfc, which is denormal before it is 0";
  }
  for (float value = -40.0f; value < 40.0f; value += 0.01f) {
    float result = value;
    GetParam().function(Activation::gelu, &result, 1);
    EXPECT_NE(std::fpclassify(result), FP_SUBNORMAL) << value;
  }
}

TEST_P(EltwiseF32Test, WhatIsNotFinite) {
  for (const Activation activation : kActivations) {
    GuardedVector<float> values{std::numeric_limits<float>::infinity(), std::nanf(""), 0.0f};
    GetParam().function(activation, values.data(), 3);
    EXPECT_EQ(values[0], std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(values[1]));
    EXPECT_EQ(values[2], 0.0f);
  }
}

TEST(EltwiseF32List, EndsInRef) { EXPECT_EQ(eltwise_f32_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
