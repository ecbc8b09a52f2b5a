#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "exact_activation.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/eltwise_bf16/eltwise_bf16.h"
#include "kernels/gemm/half.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class EltwiseBf16Test : public testing::TestWithParam<KernelRow<EltwiseBf16Function>> {};

INSTANTIATE_TEST_SUITE_P(Rows, EltwiseBf16Test,
                         testing::ValuesIn(usable_rows(eltwise_bf16_kernels())), RowName());

// Half a unit in the last of bf16's eight bits, plus the error bound of the family.
double allowed(double x, double exact) {
  const double half = exact == 0 ? 0.0 : std::ldexp(0.5, std::ilogb(exact) - 7);
  return half + std::max(0x1p-12 * std::fabs(exact), 0x1p-20 * std::fabs(x)) + 1e-36;
}

void check(EltwiseBf16Function* row, const GuardedVector<uint16_t>& src) {
  for (const Activation activation : kActivations) {
    auto values = src;
    row(activation, values.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < src.size(); ++i) {
      const auto x = static_cast<double>(bf16_to_float(src[i]));
      const double exact = exact_activation(activation, x);
      ASSERT_NEAR(static_cast<double>(bf16_to_float(values[i])), exact, allowed(x, exact))
          << activation_name(activation) << " of " << x;
    }
  }
}

// All numbers below 1e12 in magnitude.
TEST_P(EltwiseBf16Test, EveryNumber) {
  GuardedVector<uint16_t> src;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    if (std::isfinite(value) && std::fabs(value) < 1e12f) {
      src.push_back(static_cast<uint16_t>(bits));
    }
  }
  check(GetParam().function, src);
}

TEST_P(EltwiseBf16Test, EveryCount) {
  for (size_t count = 0; count <= 70; ++count) {
    GuardedVector<uint16_t> src(count);
    for (size_t i = 0; i < count; ++i) {
      src[i] = float_to_bf16(0.37f * static_cast<float>(i) - 6.0f);
    }
    check(GetParam().function, src);
  }
}

TEST_P(EltwiseBf16Test, WhatIsNotFinite) {
  for (const Activation activation : kActivations) {
    // NaNs of various bits and of both signs.
    GuardedVector<uint16_t> values{0x7f80, 0x7fc0, 0x7fff, 0xffff, 0x7f81, 0};
    GetParam().function(activation, values.data(), static_cast<int64_t>(values.size()));
    EXPECT_EQ(values[0], 0x7f80);
    for (size_t i = 1; i < 5; ++i) {
      EXPECT_TRUE(std::isnan(bf16_to_float(values[i]))) << i << " " << activation_name(activation);
    }
    EXPECT_EQ(bf16_to_float(values[5]), 0.0f);
  }
}

TEST(EltwiseBf16, ThreadsDoNotMatter) {
  GuardedVector<uint16_t> src(200001);
  for (size_t i = 0; i < src.size(); ++i) {
    src[i] = float_to_bf16(std::sin(static_cast<float>(i)) * 5.0f);
  }
  auto one = src, more = src;
  eltwise_bf16(Activation::silu, one.data(), static_cast<int64_t>(one.size()));
  const Threads threads(3);
  eltwise_bf16(Activation::silu, more.data(), static_cast<int64_t>(more.size()));
  EXPECT_EQ(one, more);
}

TEST(EltwiseBf16List, EndsInRef) { EXPECT_EQ(eltwise_bf16_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
