#include <gtest/gtest.h>

#include <cstdint>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/dequantize/dequantize.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<DequantizeFunction>;
class DequantizeTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, DequantizeTest, testing::ValuesIn(usable_rows(dequantize_kernels())),
                         RowName());

GuardedVector<uint8_t> counting(size_t count) {
  GuardedVector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 37 + 11);
  }
  return bytes;
}

// The product of two floats is exact in double, so rounding it once gives the formula.
float expected(int value, float scale, int32_t zero_point) {
  return static_cast<float>(static_cast<double>(scale) * (value - zero_point));
}

TEST_P(DequantizeTest, EveryValueUnsigned) {
  const auto src = counting(256);
  for (int32_t zero_point = 0; zero_point < 256; zero_point += 17) {
    const float scale = 0.0123f * static_cast<float>(zero_point + 1);
    GuardedVector<float> dst(src.size());
    GetParam().function(src.data(), dst.data(), 256, scale, zero_point, 0);
    for (size_t i = 0; i < src.size(); ++i) {
      EXPECT_EQ(dst[i], expected(src[i], scale, zero_point)) << int{src[i]};
    }
  }
}

TEST_P(DequantizeTest, EveryValueSigned) {
  const auto src = counting(256);
  for (int32_t zero_point = -128; zero_point < 128; zero_point += 17) {
    GuardedVector<float> dst(src.size());
    GetParam().function(src.data(), dst.data(), 256, 0.37f, zero_point + 128, 0x80);
    for (size_t i = 0; i < src.size(); ++i) {
      EXPECT_EQ(dst[i], expected(static_cast<int8_t>(src[i]), 0.37f, zero_point)) << int{src[i]};
    }
  }
}

TEST_P(DequantizeTest, EveryLength) {
  for (size_t count = 0; count <= 100; ++count) {
    const auto src = counting(count);
    GuardedVector<float> dst(count + 1, -77.0f);
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(count), 0.5f, 3, 0);
    EXPECT_EQ(dst.back(), -77.0f) << "wrote past the end at length " << count;
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(dst[i], expected(src[i], 0.5f, 3)) << count << " " << i;
    }
  }
}

TEST(Dequantize, LongerThanOneThreadsShare) {
  const auto src = counting(50'001);
  GuardedVector<float> dst(src.size());
  const auto count = static_cast<int64_t>(src.size());
  dequantize_u8(src.data(), dst.data(), count, 0.1f, 9);
  for (size_t i = 0; i < src.size(); ++i) {
    ASSERT_EQ(dst[i], expected(src[i], 0.1f, 9)) << i;
  }
  dequantize_s8(reinterpret_cast<const int8_t*>(src.data()), dst.data(), count, 0.1f, -9);
  for (size_t i = 0; i < src.size(); ++i) {
    ASSERT_EQ(dst[i], expected(static_cast<int8_t>(src[i]), 0.1f, -9)) << i;
  }
}

TEST(DequantizeList, EndsInRef) { EXPECT_EQ(dequantize_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
