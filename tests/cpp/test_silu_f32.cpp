#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/silu_f32/silu_f32.h"

namespace cpuaccel::kernels {
namespace {

class SiluF32Test : public testing::TestWithParam<KernelRow<SiluF32Function>> {};

INSTANTIATE_TEST_SUITE_P(Rows, SiluF32Test, testing::ValuesIn(usable_rows(silu_f32_kernels())),
                         RowName());

void check(const GuardedVector<float>& src, SiluF32Function* function) {
  GuardedVector<float> dst(src.size());
  function(src.data(), dst.data(), static_cast<int64_t>(src.size()));
  for (size_t i = 0; i < src.size(); ++i) {
    const auto x = static_cast<double>(src[i]);
    const double exact = x / (1.0 + std::exp(-x));
    ASSERT_NEAR(static_cast<double>(dst[i]), exact, 4 * 0x1p-24 * std::fabs(exact) + 1e-36)
        << "of " << src[i];
  }
  GuardedVector<float> in_place = src;
  function(in_place.data(), in_place.data(), static_cast<int64_t>(src.size()));
  EXPECT_EQ(in_place, dst);
}

TEST_P(SiluF32Test, EveryCount) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> any(-10.0f, 10.0f);
  for (size_t count = 0; count <= 70; ++count) {
    GuardedVector<float> src(count);
    for (auto& value : src) {
      value = any(random);
    }
    check(src, GetParam().function);
  }
}

TEST_P(SiluF32Test, EveryMagnitude) {
  GuardedVector<float> src;
  for (float value = 1e-42f; value < 1e38f; value *= 1.01f) {
    src.push_back(value);
    src.push_back(-value);
  }
  for (float value = -110.0f; value < 110.0f; value += 0.00171f) {
    src.push_back(value);
  }
  check(src, GetParam().function);
}

TEST_P(SiluF32Test, WhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const GuardedVector<float> src{kInfinity, -kInfinity, std::nanf(""), 1.0f, 0.0f, -0.0f};
  GuardedVector<float> dst(src.size());
  GetParam().function(src.data(), dst.data(), static_cast<int64_t>(src.size()));
  EXPECT_EQ(dst[0], kInfinity);
  EXPECT_TRUE(std::isnan(dst[1]));
  EXPECT_TRUE(std::isnan(dst[2]));
  EXPECT_EQ(dst[4], 0.0f);
  EXPECT_TRUE(std::signbit(dst[5]));
}

TEST(SiluF32List, EndsInRef) { EXPECT_EQ(silu_f32_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
