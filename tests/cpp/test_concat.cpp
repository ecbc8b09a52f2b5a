#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "guarded.h"
#include "kernels/concat/concat.h"

namespace cpuaccel::kernels {
namespace {

using Bytes = GuardedVector<uint8_t>;

struct Case {
  int64_t rows;
  GuardedVector<int64_t> columns;
};

class ConcatTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Shapes, ConcatTest,
                         testing::Values(Case{1, {7}}, Case{3, {1, 2, 3}}, Case{50, {16, 16}},
                                         Case{49, {24, 58, 3}}, Case{2, {5000, 4097}},
                                         Case{1, {70'000, 30}}, Case{0, {4, 4}}, Case{5, {0, 8, 0}},
                                         Case{9, {0, 0}}, Case{4000, {17, 15, 128, 129}}));

std::array<uint8_t, 256> some_table(unsigned seed) {
  std::array<uint8_t, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<uint8_t>(i * 5 + seed);
  }
  return table;
}

// Every second part has a table, and every third has gaps between its rows.
TEST_P(ConcatTest, RowsSideBySide) {
  const auto& [rows, columns] = GetParam();
  const auto table = some_table(3);
  std::mt19937 generator(1);
  std::vector<Bytes> sources;
  std::vector<ConcatPart> parts;
  int64_t width = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    const int64_t stride = columns[i] + (i % 3 == 0 ? 5 : 0);
    auto& source = sources.emplace_back(static_cast<size_t>(rows * stride));
    for (auto& value : source) {
      value = static_cast<uint8_t>(generator());
    }
    parts.push_back({source.data(), columns[i], stride, i % 2 == 0 ? table.data() : nullptr});
    width += columns[i];
  }
  Bytes dst(static_cast<size_t>(rows * width) + 1, 0xa5);
  concat_u8(parts, dst.data(), rows);
  EXPECT_EQ(dst.back(), 0xa5) << "wrote past the end";
  size_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      for (int64_t c = 0; c < columns[i]; ++c) {
        const auto value = sources[i][static_cast<size_t>(row * parts[i].stride + c)];
        ASSERT_EQ(dst[at++], i % 2 == 0 ? table[value] : value) << row << " " << i << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
