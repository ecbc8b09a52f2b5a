#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/channel_affine/channel_affine.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<ChannelAffineFunction>;
class ChannelAffineTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, ChannelAffineTest,
                         testing::ValuesIn(usable_rows(channel_affine_kernels())), RowName());

struct Factors {
  explicit Factors(int64_t channels) {
    std::mt19937 generator(static_cast<unsigned>(channels));
    std::normal_distribution<float> normal;
    for (int64_t c = 0; c < channels; ++c) {
      factor.push_back(normal(generator));
      offset.push_back(20.0f * normal(generator));
    }
  }
  ChannelAffine affine(int32_t src_zero_point, int32_t dst_zero_point, int32_t lowest) const {
    return {static_cast<int64_t>(factor.size()),
            factor.data(),
            offset.data(),
            src_zero_point,
            dst_zero_point,
            lowest};
  }
  GuardedVector<float> factor, offset;
};

// All 256 byte values in each channel: pixel p holds p + channel.
GuardedVector<uint8_t> all_bytes(int64_t channels) {
  GuardedVector<uint8_t> src;
  for (int64_t p = 0; p < 256; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      src.push_back(static_cast<uint8_t>(p + c));
    }
  }
  return src;
}

// The formula of channel_affine.h in double, rounded to float once, like a fused operation. Double
// holds the product of two floats exactly, and their sum except for its last bit.
uint8_t expected_value(const ChannelAffine& affine, uint8_t src, int64_t c) {
  const double exact =
      static_cast<double>(affine.factor[c]) * (src - affine.src_zero_point) + affine.offset[c];
  const double step = std::nearbyint(static_cast<float>(exact)) + affine.dst_zero_point;
  return static_cast<uint8_t>(std::fmin(std::fmax(step, affine.lowest), 255.0));
}

TEST_P(ChannelAffineTest, EveryByteAndChannelCount) {
  for (int64_t channels = 1; channels <= 100; ++channels) {
    const Factors factors(channels);
    const auto zero_point = static_cast<int32_t>(channels * 37 % 256);
    const int32_t lowest = channels % 2 == 0 ? 0 : zero_point;
    const auto affine = factors.affine(static_cast<int32_t>(channels), zero_point, lowest);
    const auto src = all_bytes(channels);
    GuardedVector<uint8_t> dst(src.size());
    GetParam().function(affine, src.data(), dst.data(), 256);
    for (size_t i = 0; i < src.size(); ++i) {
      const auto c = static_cast<int64_t>(i) % channels;
      ASSERT_EQ(dst[i], expected_value(affine, src[i], c)) << channels << " channels, " << i;
    }
  }
}

TEST_P(ChannelAffineTest, TheLargestThatFit) {
  const GuardedVector<float> factor{7.0e6f, -7.0e6f, 0.0f, 0.0f, 3.9f, 3.9f, -3.9f, -3.9f};
  const GuardedVector<float> offset{0.0f, 0.0f, 1.9e9f, -1.9e9f, 1.9e9f, -1.9e9f, 1.9e9f, -1.9e9f};
  for (size_t c = 0; c < factor.size(); ++c) {
    EXPECT_TRUE(channel_affine_fits(factor[c], offset[c]));
  }
  const ChannelAffine affine{8, factor.data(), offset.data(), 0, 255, 0};
  const GuardedVector<uint8_t> src(8, 255);
  GuardedVector<uint8_t> dst(8);
  GetParam().function(affine, src.data(), dst.data(), 1);
  EXPECT_EQ(dst, (GuardedVector<uint8_t>{255, 0, 255, 0, 255, 0, 255, 0}));
}

TEST(ChannelAffine, WhatDoesNotFit) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(channel_affine_fits(8.5e6f, 0.0f));
  EXPECT_FALSE(channel_affine_fits(1.0f, -2.2e9f));
  EXPECT_FALSE(channel_affine_fits(infinity, 0.0f));
  EXPECT_FALSE(channel_affine_fits(0.0f, -infinity));
  EXPECT_FALSE(channel_affine_fits(std::numeric_limits<float>::quiet_NaN(), 0.0f));
}

TEST(ChannelAffine, AllPixels) {
  const Factors factors(70);
  const auto affine = factors.affine(3, 100, 100);
  GuardedVector<uint8_t> src;
  for (int i = 0; i < 8; ++i) {
    const auto more = all_bytes(70);
    src.insert(src.end(), more.begin(), more.end());
  }
  GuardedVector<uint8_t> dst(src.size()), expected(src.size());
  channel_affine_u8(affine, src.data(), dst.data(), 8 * 256);
  channel_affine_ref(affine, src.data(), expected.data(), 8 * 256);
  EXPECT_EQ(dst, expected);
}

TEST(ChannelAffineList, EndsInRef) { EXPECT_EQ(channel_affine_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
