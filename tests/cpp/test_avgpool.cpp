#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/avgpool/avgpool.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<AvgpoolFunction>;
class AvgpoolTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, AvgpoolTest, testing::ValuesIn(usable_rows(avgpool_kernels())),
                         RowName());

GuardedVector<uint8_t> random_bytes(size_t count) {
  std::mt19937 generator(static_cast<unsigned>(count));
  GuardedVector<uint8_t> result(count);
  for (auto& value : result) {
    value = static_cast<uint8_t>(generator() % 256);
  }
  return result;
}

// Rounds a / b half to even in integers, independent of any float rounding.
int64_t divide_half_to_even(int64_t a, int64_t b) {
  if (b < 0) {
    a = -a;
    b = -b;
  }
  const int64_t floor = a >= 0 ? a / b : -((-a + b - 1) / b);
  const int64_t twice = 2 * (a - floor * b);
  return floor + (twice > b || (twice == b && floor % 2 != 0) ? 1 : 0);
}

uint8_t expected_value(int64_t centered_sum, int64_t divisor, int32_t zero_point,
                       AvgpoolHalves halves) {
  const int64_t value = halves == AvgpoolHalves::even_steps
                            ? divide_half_to_even(centered_sum, divisor) + zero_point
                            : divide_half_to_even(centered_sum + divisor * zero_point, divisor);
  return static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255));
}

struct Case {
  int64_t rows, columns, channels, divisor;
  int32_t zero_point;
};

void check_halves(AvgpoolFunction* function, const Case& c, const GuardedVector<uint8_t>& src,
                  int64_t column_stride, int64_t row_stride, AvgpoolHalves halves) {
  AvgpoolWindow window(c.rows, c.columns, c.divisor, c.zero_point, halves);
  window.row_stride = row_stride;
  window.column_stride = column_stride;
  GuardedVector<uint8_t> dst(static_cast<size_t>(c.channels));
  function(window, src.data(), dst.data(), c.channels);
  for (int64_t channel = 0; channel < c.channels; ++channel) {
    int64_t sum = -c.rows * c.columns * c.zero_point;
    for (int64_t h = 0; h < c.rows; ++h) {
      for (int64_t w = 0; w < c.columns; ++w) {
        sum += src[static_cast<size_t>(h * row_stride + w * column_stride + channel)];
      }
    }
    ASSERT_EQ(dst[static_cast<size_t>(channel)],
              expected_value(sum, c.divisor, c.zero_point, halves))
        << c.rows << " x " << c.columns << " / " << c.divisor << ", channel " << channel << " of "
        << c.channels;
  }
}

void check(AvgpoolFunction* function, const Case& c, const GuardedVector<uint8_t>& src,
           int64_t column_stride, int64_t row_stride) {
  for (const auto halves : {AvgpoolHalves::even_byte, AvgpoolHalves::even_steps}) {
    check_halves(function, c, src, column_stride, row_stride, halves);
  }
}

// The window is the whole image, and memory ends with it: no byte may be read beyond.
void check_dense(AvgpoolFunction* function, const Case& c) {
  const auto src = random_bytes(static_cast<size_t>(c.rows * c.columns * c.channels));
  check(function, c, src, c.channels, c.columns * c.channels);
}

TEST_P(AvgpoolTest, EveryChannelCount) {
  for (int64_t channels = 1; channels <= 200; ++channels) {
    check_dense(GetParam().function, {3, 2, channels, 6, static_cast<int32_t>(channels)});
  }
}

TEST_P(AvgpoolTest, EveryArea) {
  for (int64_t rows = 1; rows <= 24; ++rows) {
    for (int64_t columns = 1; columns <= 24; ++columns) {
      check_dense(GetParam().function, {rows, columns, 40, rows * columns, 100});
    }
  }
}

TEST_P(AvgpoolTest, LongRowsAndLargeAreas) {
  for (const int64_t columns : {255, 256, 257, 258, 514, 600}) {
    for (const int64_t rows : {1, 2, 54}) {
      check_dense(GetParam().function, {rows, columns, 9, rows * columns, 3});
    }
  }
  // The largest possible sums.
  const Case largest{181, 181, 33, 181 * 181, 0};
  const GuardedVector<uint8_t> src(static_cast<size_t>(181 * 181 * 33), 255);
  check(GetParam().function, largest, src, 33, 181 * 33);
}

TEST_P(AvgpoolTest, AnyDivisor) {
  for (const int64_t divisor : {1, 2, 3, 5, 7, 9, 10, 49, 100, 32767, -1, -4, -9, -32767}) {
    for (const int32_t zero_point : {0, 1, 128, 255}) {
      check_dense(GetParam().function, {3, 3, 67, divisor, zero_point});
    }
  }
}

// Every half, and its neighbors and those of whole numbers, for every divisor of a window that
// divides in 16 bits, and for some larger ones.
TEST_P(AvgpoolTest, EveryHalf) {
  for (int64_t divisor = 1; divisor <= 140; ++divisor) {
    GuardedVector<int64_t> sums;
    for (int64_t whole = 0; whole < 255; ++whole) {
      for (const int64_t part :
           {int64_t{0}, int64_t{1}, divisor / 2 - 1, divisor / 2, divisor / 2 + 1, divisor - 1}) {
        sums.push_back(whole * divisor + std::clamp<int64_t>(part, 0, divisor));
      }
    }
    sums.push_back(255 * divisor);
    const auto channels = static_cast<int64_t>(sums.size());
    GuardedVector<uint8_t> src;
    for (int64_t pixel = 0; pixel < divisor; ++pixel) {
      for (const int64_t sum : sums) {
        src.push_back(static_cast<uint8_t>(std::clamp<int64_t>(sum - 255 * pixel, 0, 255)));
      }
    }
    for (const int32_t zero_point : {0, 77, 255}) {
      check(GetParam().function, {1, divisor, channels, divisor, zero_point}, src, channels, 0);
    }
  }
}

// Divisors that differ from the size of the window, as with padding that counts.
TEST_P(AvgpoolTest, MoreThanThePixels) {
  for (int64_t divisor = 4; divisor <= 130; ++divisor) {
    for (const int32_t zero_point : {0, 1, 128, 255}) {
      check_dense(GetParam().function, {2, 2, 40, divisor, zero_point});
    }
  }
}

TEST_P(AvgpoolTest, StridedWindows) {
  const auto src = random_bytes(4 * 7 * 150);
  check(GetParam().function, {4, 3, 90, 12, 5}, src, 150, 7 * 150);
}

TEST(Avgpool, AllImagesWindowsAndChannels) {
  constexpr int64_t kChannels = 300;
  const std::vector<AvgpoolRange> rows{{0, 2, 3}, {1, 4, 3}, {3, 5, 3}};
  const std::vector<AvgpoolRange> columns{{0, 3, 3}, {2, 4, 2}, {4, 4, 1}};
  const AvgpoolCall call{.N = 2,
                         .H = 5,
                         .W = 4,
                         .C = kChannels,
                         .OH = 3,
                         .OW = 3,
                         .rows = rows.data(),
                         .columns = columns.data(),
                         .zero_point = 17,
                         .halves = AvgpoolHalves::even_steps};
  const auto src = random_bytes(2 * 5 * 4 * kChannels);
  GuardedVector<uint8_t> dst(2 * 3 * 3 * kChannels, 1);
  avgpool_u8(call, src.data(), dst.data());
  size_t i = 0;
  for (int64_t n = 0; n < call.N; ++n) {
    for (const auto& row : rows) {
      for (const auto& column : columns) {
        for (int64_t c = 0; c < kChannels; ++c) {
          int64_t sum = 0;
          for (int64_t h = row.begin; h < row.end; ++h) {
            for (int64_t w = column.begin; w < column.end; ++w) {
              sum += src[static_cast<size_t>(((n * 5 + h) * 4 + w) * kChannels + c)] - 17;
            }
          }
          ASSERT_EQ(dst[i], expected_value(sum, row.extent * column.extent, 17, call.halves)) << i;
          ++i;
        }
      }
    }
  }
}

TEST(AvgpoolList, EndsInRef) { EXPECT_EQ(avgpool_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
