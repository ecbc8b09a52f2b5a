#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/checksum/checksum.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<ChecksumFunction>;
class ChecksumTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, ChecksumTest, testing::ValuesIn(usable_rows(checksum_kernels())),
                         RowName());

GuardedVector<uint8_t> random_bytes(size_t count) {
  std::mt19937 generator(static_cast<unsigned>(count));
  GuardedVector<uint8_t> result(count);
  for (auto& value : result) {
    value = static_cast<uint8_t>(generator());
  }
  return result;
}

TEST_P(ChecksumTest, EqualsTheReference) {
  for (const int64_t blocks : {0, 1, 2, 3, 17}) {
    const auto src = random_bytes(static_cast<size_t>(blocks * kChecksumBlock));
    EXPECT_EQ(GetParam().function(src.data(), blocks), checksum_ref(src.data(), blocks));
  }
}

TEST(Checksum, NoticesEveryChangedBit) {
  for (const size_t size : {1u, 255u, 256u, 700u}) {
    auto src = random_bytes(size);
    const auto before = checksum(src.data(), static_cast<int64_t>(size));
    for (size_t byte = 0; byte < size; ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        src[byte] ^= static_cast<uint8_t>(1 << bit);
        ASSERT_NE(checksum(src.data(), static_cast<int64_t>(size)), before);
        src[byte] ^= static_cast<uint8_t>(1 << bit);
      }
    }
  }
}

TEST(Checksum, NoticesLengthAndOrder) {
  const GuardedVector<uint8_t> zeros(200'000);
  EXPECT_NE(checksum(zeros.data(), 1000), checksum(zeros.data(), 1001));
  EXPECT_NE(checksum(zeros.data(), 0), checksum(zeros.data(), 1));
  auto src = random_bytes(200'000);
  const auto before = checksum(src.data(), 200'000);
  for (const size_t distance : {4u, 8u, 256u, 65'536u, 131'072u}) {
    std::swap_ranges(src.begin(), src.begin() + 4, src.begin() + static_cast<long>(distance));
    EXPECT_NE(checksum(src.data(), 200'000), before) << distance;
    std::swap_ranges(src.begin(), src.begin() + 4, src.begin() + static_cast<long>(distance));
  }
  EXPECT_EQ(checksum(src.data(), 200'000), before);
}

}  // namespace
}  // namespace cpuaccel::kernels
