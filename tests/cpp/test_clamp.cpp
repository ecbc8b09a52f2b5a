#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/clamp/clamp.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<ClampFunction>;
class ClampTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, ClampTest, testing::ValuesIn(usable_rows(clamp_kernels())),
                         RowName());

using Bytes = GuardedVector<uint8_t>;

Bytes counting(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 37 + 11);
  }
  return bytes;
}

Bytes expected(const Bytes& src, uint8_t low, uint8_t high) {
  Bytes dst;
  for (const auto value : src) {
    dst.push_back(std::min(std::max(value, low), high));
  }
  return dst;
}

TEST_P(ClampTest, EveryValue) {
  const auto src = counting(256);
  for (const auto& [low, high] : std::vector<std::pair<uint8_t, uint8_t>>{
           {0, 255}, {0, 0}, {255, 255}, {127, 128}, {90, 3}}) {
    Bytes dst(src.size());
    GetParam().function(src.data(), dst.data(), 256, {low, high});
    EXPECT_EQ(dst, expected(src, low, high)) << int{low} << " " << int{high};
  }
}

TEST_P(ClampTest, EveryLength) {
  for (size_t count = 0; count <= 200; ++count) {
    const auto src = counting(count);
    Bytes dst(count + 1, 0xa5);
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(count), {40, 200});
    EXPECT_EQ(dst.back(), 0xa5) << "wrote past the end at length " << count;
    dst.pop_back();
    EXPECT_EQ(dst, expected(src, 40, 200)) << count;
  }
}

TEST_P(ClampTest, InPlace) {
  const auto src = counting(777);
  auto both = src;
  GetParam().function(both.data(), both.data(), 777, {100, 180});
  EXPECT_EQ(both, expected(src, 100, 180));
}

TEST(Clamp, LongerThanOneThreadsShare) {
  const auto src = counting(600'001);
  Bytes dst(src.size());
  clamp_u8(src.data(), dst.data(), static_cast<int64_t>(src.size()), 3, 99);
  EXPECT_EQ(dst, expected(src, 3, 99));
}

TEST_P(ClampTest, Int8IsUint8WithItsSignFlipped) {
  for (const size_t count : {size_t{256}, size_t{77}, size_t{5}}) {
    const auto src = counting(count);
    Bytes dst(count), want;
    for (const auto byte : src) {
      const auto value = static_cast<int8_t>(byte);
      want.push_back(static_cast<uint8_t>(std::min(std::max(value, int8_t{-20}), int8_t{90})));
    }
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(count),
                        {.low = 128 - 20, .high = 128 + 90, .flipped_bits = 0x80});
    EXPECT_EQ(dst, want) << count;
  }
}

TEST(Clamp, Int8) {
  const GuardedVector<int8_t> src{-128, -21, -20, 0, 90, 91, 127};
  GuardedVector<int8_t> dst(src.size());
  clamp_s8(src.data(), dst.data(), static_cast<int64_t>(src.size()), -20, 90);
  EXPECT_EQ(dst, (GuardedVector<int8_t>{-20, -20, -20, 0, 90, 90, 90}));
}

TEST(ClampList, EndsInRef) { EXPECT_EQ(clamp_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
