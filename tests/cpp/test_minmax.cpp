#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/minmax/minmax.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<MinMaxFunction>;
class MinMaxTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, MinMaxTest, testing::ValuesIn(usable_rows(minmax_kernels())),
                         RowName());

TEST_P(MinMaxTest, EveryLengthMatchesRef) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, 10.0f);
  for (int64_t count = 1; count <= 130; ++count) {
    GuardedVector<float> src(static_cast<size_t>(count));
    for (auto& value : src) {
      value = normal(generator);
    }
    const MinMax expected = minmax_ref(src.data(), count);
    const MinMax actual = GetParam().function(src.data(), count);
    EXPECT_EQ(actual.min, expected.min) << count;
    EXPECT_EQ(actual.max, expected.max) << count;
  }
}

TEST_P(MinMaxTest, TheExtremeMayBeAnywhere) {
  constexpr int64_t kCount = 67;
  for (int64_t at = 0; at < kCount; ++at) {
    GuardedVector<float> src(kCount, 1.0f);
    src[static_cast<size_t>(at)] = -2.0f;
    EXPECT_EQ(GetParam().function(src.data(), kCount).min, -2.0f) << at;
    src[static_cast<size_t>(at)] = 3.0f;
    EXPECT_EQ(GetParam().function(src.data(), kCount).max, 3.0f) << at;
  }
}

TEST_P(MinMaxTest, NaNsAreSkipped) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t count : {1, 8, 16, 17, 32, 33, 100}) {
    GuardedVector<float> src(static_cast<size_t>(count), nan);
    const MinMax none = GetParam().function(src.data(), count);
    EXPECT_TRUE(std::isinf(none.min) && none.min > 0);
    EXPECT_TRUE(std::isinf(none.max) && none.max < 0);
    src.back() = 5.0f;
    const MinMax one = GetParam().function(src.data(), count);
    EXPECT_EQ(one.min, 5.0f) << count;
    EXPECT_EQ(one.max, 5.0f) << count;
  }
}

TEST(MinMaxList, EndsInRefAndNamesAreUnique) {
  EXPECT_EQ(minmax_kernels().back().isa, Isa::ref);
  EXPECT_STREQ(minmax_kernels().back().name, "ref");
}

TEST(MinMaxDispatch, LongRowsGoThroughTheParallelHook) {
  GuardedVector<float> src(100000, 0.5f);
  src[99999] = 9.0f;
  src[50000] = -9.0f;
  const MinMax result = minmax(src.data(), static_cast<int64_t>(src.size()));
  EXPECT_EQ(result.min, -9.0f);
  EXPECT_EQ(result.max, 9.0f);
}

}  // namespace
}  // namespace cpuaccel::kernels
