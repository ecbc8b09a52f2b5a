#include <gtest/gtest.h>

#include <vector>

#include "kernel_rows.h"
#include "kernels/bytes_above/bytes_above.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<BytesAboveFunction>;
class BytesAboveTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, BytesAboveTest,
                         testing::ValuesIn(usable_rows(bytes_above_kernels())), RowName());

TEST_P(BytesAboveTest, TheByteMayBeAnywhere) {
  for (const int64_t count : {1, 31, 32, 33, 127, 128, 129, 255, 300}) {
    for (int64_t at = 0; at < count; ++at) {
      std::vector<uint8_t> src(static_cast<size_t>(count), 128);
      EXPECT_FALSE(GetParam().function(src.data(), count, 128)) << count;
      src[static_cast<size_t>(at)] = 129;
      EXPECT_TRUE(GetParam().function(src.data(), count, 128)) << count << " " << at;
      EXPECT_FALSE(GetParam().function(src.data(), count, 129)) << count << " " << at;
    }
  }
}

TEST_P(BytesAboveTest, NothingIsAboveInNoBytes) {
  EXPECT_FALSE(GetParam().function(nullptr, 0, 0));
}

TEST_P(BytesAboveTest, BlocksAreReadToTheirEnds) {
  constexpr int64_t kCount = 2 * kBytesAboveBlock + 77;
  for (const int64_t at : {int64_t{0}, kBytesAboveBlock - 1, kBytesAboveBlock, kCount - 1}) {
    std::vector<uint8_t> src(kCount, 0);
    src[static_cast<size_t>(at)] = 255;
    EXPECT_TRUE(GetParam().function(src.data(), kCount, 254)) << at;
  }
}

TEST(BytesAboveDispatch, LongRowsGoThroughTheParallelHook) {
  std::vector<uint8_t> src(1000000, 200);
  EXPECT_FALSE(bytes_above(src.data(), static_cast<int64_t>(src.size()), 200));
  src.back() = 201;
  EXPECT_TRUE(bytes_above(src.data(), static_cast<int64_t>(src.size()), 200));
}

}  // namespace
}  // namespace cpuaccel::kernels
