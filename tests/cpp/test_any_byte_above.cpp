#include <gtest/gtest.h>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/any_byte_above/any_byte_above.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<AnyByteAboveFunction>;
class AnyByteAboveTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, AnyByteAboveTest,
                         testing::ValuesIn(usable_rows(any_byte_above_kernels())), RowName());

TEST_P(AnyByteAboveTest, TheByteMayBeAnywhere) {
  for (const int64_t count : {1, 31, 32, 33, 127, 128, 129, 255, 300}) {
    for (int64_t at = 0; at < count; ++at) {
      GuardedVector<uint8_t> src(static_cast<size_t>(count), 128);
      EXPECT_FALSE(GetParam().function(src.data(), count, 128)) << count;
      src[static_cast<size_t>(at)] = 129;
      EXPECT_TRUE(GetParam().function(src.data(), count, 128)) << count << " " << at;
      EXPECT_FALSE(GetParam().function(src.data(), count, 129)) << count << " " << at;
    }
  }
}

TEST_P(AnyByteAboveTest, NothingIsAboveInNoBytes) {
  EXPECT_FALSE(GetParam().function(nullptr, 0, 0));
}

TEST_P(AnyByteAboveTest, BlocksAreReadToTheirEnds) {
  constexpr int64_t kCount = 2 * kAnyByteAboveBlock + 77;
  for (const int64_t at : {int64_t{0}, kAnyByteAboveBlock - 1, kAnyByteAboveBlock, kCount - 1}) {
    GuardedVector<uint8_t> src(kCount, 0);
    src[static_cast<size_t>(at)] = 255;
    EXPECT_TRUE(GetParam().function(src.data(), kCount, 254)) << at;
  }
}

TEST(AnyByteAboveDispatch, LongRowsGoThroughTheParallelHook) {
  GuardedVector<uint8_t> src(1000000, 200);
  EXPECT_FALSE(any_byte_above(src.data(), static_cast<int64_t>(src.size()), 200));
  src.back() = 201;
  EXPECT_TRUE(any_byte_above(src.data(), static_cast<int64_t>(src.size()), 200));
}

}  // namespace
}  // namespace cpuaccel::kernels
