#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/channel_shuffle/channel_shuffle.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<ChannelShuffleFunction>;
class ChannelShuffleTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, ChannelShuffleTest,
                         testing::ValuesIn(usable_rows(channel_shuffle_kernels())), RowName());

using Bytes = GuardedVector<uint8_t>;

// Each src has exactly the bytes that it needs, so that a sanitizer detects reads past them.
struct Case {
  int64_t groups, rows, columns, gap;
  std::vector<Bytes> data;
  std::vector<ChannelShuffleSource> src;

  Case(int64_t groups_, int64_t rows_, int64_t columns_, int64_t gap_)
      : groups(groups_), rows(rows_), columns(columns_), gap(gap_) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t pitch = columns + gap * (g + 1);
      const int64_t size = rows == 0 ? 0 : (rows - 1) * pitch + columns;
      Bytes bytes(static_cast<size_t>(size));
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(31 * g + 7 * static_cast<int64_t>(i) + 3);
      }
      data.push_back(std::move(bytes));
      src.push_back({data.back().data(), pitch});
    }
  }
  Bytes expected() const {
    Bytes dst;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t g = 0; g < groups; ++g) {
          const auto& from = src[static_cast<size_t>(g)];
          dst.push_back(from.data[row * from.pitch + c]);
        }
      }
    }
    return dst;
  }
};

void expect_right(const Row& row, const Case& c) {
  const auto expected = c.expected();
  Bytes dst(expected.size() + 1, 0xa5);
  row.function(c.src.data(), c.groups, dst.data(), c.rows, c.columns);
  EXPECT_EQ(dst.back(), 0xa5) << "wrote past the end";
  dst.pop_back();
  EXPECT_EQ(dst, expected) << c.groups << " groups, " << c.rows << " rows, " << c.columns
                           << " columns";
}

TEST_P(ChannelShuffleTest, EveryWidthOfTwoGroups) {
  for (int64_t columns = 0; columns <= 130; ++columns) {
    expect_right(GetParam(), Case(2, 3, columns, 0));
    expect_right(GetParam(), Case(2, 3, columns, 5));
  }
}

TEST_P(ChannelShuffleTest, OtherNumbersOfGroups) {
  for (const int64_t groups : {1, 3, 4, 8}) {
    for (const int64_t columns : {1, 16, 29, 40}) {
      expect_right(GetParam(), Case(groups, 4, columns, 2));
    }
  }
}

TEST_P(ChannelShuffleTest, NoRows) { expect_right(GetParam(), Case(2, 0, 20, 0)); }

TEST(ChannelShuffle, Dispatches) {
  const Case c(2, 7, 58, 58);
  const auto expected = c.expected();
  Bytes dst(expected.size());
  channel_shuffle_on_this_thread(c.src, dst.data(), c.rows, c.columns);
  EXPECT_EQ(dst, expected);
}

TEST(ChannelShuffleList, EndsInRef) { EXPECT_EQ(channel_shuffle_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
