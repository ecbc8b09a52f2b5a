#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/channel_scale/channel_scale.h"
#include "kernels/gemm/half.h"
#include "sines.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class ChannelScaleTest : public testing::TestWithParam<KernelRow<ChannelScaleFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, ChannelScaleTest,
                         testing::ValuesIn(usable_rows(channel_scale_kernels())), RowName());

// One product is exact in float64, and rounded once, as IEEE 754 and torch do.
float exact(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}
uint16_t exact(uint16_t a, uint16_t b) {
  return float_to_bf16(exact(bf16_to_float(a), bf16_to_float(b)));
}

template <typename T, typename Kernel>
void check(Kernel kernel, const GuardedVector<T>& src, const GuardedVector<T>& scale) {
  GuardedVector<T> dst(src.size());
  kernel(src.data(), scale.data(), dst.data(), static_cast<int64_t>(src.size()));
  auto in_place = src;
  kernel(in_place.data(), scale.data(), in_place.data(), static_cast<int64_t>(src.size()));
  ASSERT_EQ(dst, in_place);
  for (size_t i = 0; i < src.size(); ++i) {
    ASSERT_EQ(dst[i], exact(src[i], scale[i])) << i << " of " << src.size();
  }
}

TEST_P(ChannelScaleTest, EveryCount) {
  const ChannelScaleKernels& kernels = GetParam().function();
  for (int64_t count = 0; count <= 70; ++count) {
    check(kernels.f32, floats(count, 0.7f), floats(count, 1.3f));
    check(kernels.bf16, halves(count, 0.7f), halves(count, 1.3f));
  }
}

// Products of eight bits each are sometimes ties.
TEST_P(ChannelScaleTest, RoundsLikeTorch) {
  GuardedVector<uint16_t> src, scale;
  for (uint16_t a = 0x3f80; a < 0x4000; ++a) {
    for (uint16_t b = 0xbf80; b < 0xc000; ++b) {
      src.push_back(a);
      scale.push_back(b);
    }
  }
  check(GetParam().function().bf16, src, scale);
}

TEST_P(ChannelScaleTest, WhatIsNotFinite) {
  const GuardedVector<uint16_t> src{0x7f80, 0x7f80, 0x7fc0, 0xffff, 0x7f7f};
  const GuardedVector<uint16_t> scale{0x3f80, 0, 0x3f80, 0x4000, 0x4000};
  GuardedVector<uint16_t> dst(src.size());
  GetParam().function().bf16(src.data(), scale.data(), dst.data(), 5);
  EXPECT_EQ(dst[0], 0x7f80);
  for (const size_t i : {1, 2, 3}) {
    EXPECT_TRUE(std::isnan(bf16_to_float(dst[i]))) << i;
  }
  EXPECT_EQ(dst[4], 0x7f80);
}

template <typename T>
void check_rows(const GuardedVector<T>& src, const GuardedVector<T>& scale) {
  const auto columns = static_cast<int64_t>(scale.size());
  GuardedVector<T> one(src.size()), more(src.size());
  channel_scale(src.data(), scale.data(), one.data(), static_cast<int64_t>(src.size()) / columns,
                columns);
  {
    const Threads threads(3);
    channel_scale(src.data(), scale.data(), more.data(), static_cast<int64_t>(src.size()) / columns,
                  columns);
  }
  ASSERT_EQ(one, more);
  for (size_t i = 0; i < src.size(); ++i) {
    ASSERT_EQ(one[i], exact(src[i], scale[i % scale.size()])) << i << " of rows of " << columns;
  }
}

TEST(ChannelScale, EveryWidth) {
  for (const int64_t columns : {1, 3, 8, 16, 24, 40, 511, 512, 513, 1000}) {
    for (const int64_t rows : {1, 2, 49, 300}) {
      check_rows(floats(rows * columns, 0.9f), floats(columns, 0.3f));
      check_rows(halves(rows * columns, 0.9f), halves(columns, 0.3f));
    }
  }
}

TEST(ChannelScale, NothingOfNoRows) {
  const float scale = 2.0f;
  channel_scale(&scale, &scale, nullptr, 0, 1);
}

TEST(ChannelScaleList, EndsInRef) { EXPECT_EQ(channel_scale_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
