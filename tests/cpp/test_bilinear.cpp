#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/bilinear/bilinear.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<BilinearFunction>;
class BilinearTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, BilinearTest, testing::ValuesIn(usable_rows(bilinear_kernels())),
                         RowName());

// `count` results between the pixels 0 and size - 1, both ends included.
std::vector<BilinearTap> taps_between(int64_t size, int64_t count) {
  std::vector<BilinearTap> taps;
  for (int64_t i = 0; i < count; ++i) {
    const double place = count == 1 ? 0.0 : static_cast<double>(i * (size - 1)) / (count - 1);
    const auto first = static_cast<int64_t>(place);
    const auto weight = static_cast<float>(place - static_cast<double>(first));
    taps.push_back({first, std::min(first + 1, size - 1), 1.0f - weight, weight});
  }
  return taps;
}

struct Case {
  Case(int64_t batch, int64_t height, int64_t width, int64_t channels, int64_t to_height,
       int64_t to_width)
      : rows(taps_between(height, to_height)), columns(taps_between(width, to_width)) {
    call = {.N = batch,
            .H = height,
            .W = width,
            .C = channels,
            .OH = to_height,
            .OW = to_width,
            .rows = rows.data(),
            .columns = columns.data()};
    std::mt19937 generator(static_cast<unsigned>(channels));
    src.resize(static_cast<size_t>(batch * height * width * channels));
    for (auto& value : src) {
      value = static_cast<uint8_t>(generator() % 256);
    }
  }

  // The formula of bilinear.h in double, before it is rounded.
  double value(int64_t n, int64_t oh, int64_t ow, int64_t c) const {
    const auto at = [&](int64_t h, int64_t w) {
      return static_cast<double>(
          src[static_cast<size_t>(((n * call.H + h) * call.W + w) * call.C + c)]);
    };
    const auto& r = rows[static_cast<size_t>(oh)];
    const auto& t = columns[static_cast<size_t>(ow)];
    const auto between = [&](int64_t w) {
      return static_cast<double>(r.first_weight) * at(r.first, w) +
             static_cast<double>(r.second_weight) * at(r.second, w);
    };
    return static_cast<double>(t.first_weight) * between(t.first) +
           static_cast<double>(t.second_weight) * between(t.second);
  }

  std::vector<BilinearTap> rows, columns;
  BilinearCall call;
  GuardedVector<uint8_t> src;
};

int64_t to_byte(double value) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(value)), 0, 255);
}

// Expects the double result, or its neighbor where float may round the other way, and the reference
// kernel's bits.
void check(BilinearFunction* function, const Case& c) {
  const auto& call = c.call;
  const auto size = static_cast<size_t>(call.OW * call.C);
  GuardedVector<float> between(static_cast<size_t>(call.W * call.C));
  GuardedVector<uint8_t> dst(size), same(size);
  for (int64_t oh = 0; oh < call.OH; ++oh) {
    function(call, c.src.data(), oh, dst.data(), between.data());
    bilinear_ref(call, c.src.data(), oh, same.data(), between.data());
    ASSERT_EQ(dst, same) << call.C << " channels";
    for (int64_t ow = 0; ow < call.OW; ++ow) {
      for (int64_t channel = 0; channel < call.C; ++channel) {
        const double value = c.value(0, oh, ow, channel);
        const int64_t byte = dst[static_cast<size_t>(ow * call.C + channel)];
        ASSERT_GE(byte, to_byte(value - 1e-4)) << oh << " " << ow;
        ASSERT_LE(byte, to_byte(value + 1e-4)) << oh << " " << ow;
      }
    }
  }
}

TEST_P(BilinearTest, EveryChannelCount) {
  for (int64_t channels = 1; channels <= 100; ++channels) {
    Case c(1, 3, 4, channels, 5, 7);
    c.call.odd = static_cast<int32_t>(channels % 2);
    check(GetParam().function, c);
  }
}

TEST_P(BilinearTest, EverySize) {
  for (int64_t from = 1; from <= 5; ++from) {
    for (int64_t to = 1; to <= 9; ++to) {
      check(GetParam().function, Case(1, from, 6 - from, 20, to, 10 - to));
    }
  }
}

// Weights of a quarter have exact products, so even halves are exact; they round to even, or to
// odd.
TEST_P(BilinearTest, ExactAtTwiceTheSize) {
  Case c(1, 2, 2, 96, 4, 4);
  const std::vector<BilinearTap> taps{
      {0, 1, 1.0f, 0.0f}, {0, 1, 0.75f, 0.25f}, {0, 1, 0.25f, 0.75f}, {1, 1, 1.0f, 0.0f}};
  c.rows = c.columns = taps;
  c.call.rows = c.rows.data();
  c.call.columns = c.columns.data();
  GuardedVector<float> between(2 * 96);
  GuardedVector<uint8_t> dst(4 * 96);
  int halves = 0;
  for (int64_t row = 0; row < 8; ++row) {
    const int64_t oh = row % 4;
    c.call.odd = static_cast<int32_t>(row / 4);
    GetParam().function(c.call, c.src.data(), oh, dst.data(), between.data());
    for (int64_t i = 0; i < 4 * 96; ++i) {
      const double value = c.value(0, oh, i / 96, i % 96);
      halves += std::fabs(value - std::floor(value) - 0.5) == 0.0 ? 1 : 0;
      const double rounded = std::nearbyint(value - c.call.odd) + c.call.odd;
      EXPECT_EQ(dst[static_cast<size_t>(i)], to_byte(rounded)) << oh << " " << i;
    }
  }
  EXPECT_GT(halves, 20);
}

TEST(Bilinear, AllImages) {
  const Case c(3, 20, 21, 24, 50, 51);
  const auto row = static_cast<size_t>(c.call.OW * c.call.C);
  GuardedVector<uint8_t> dst(static_cast<size_t>(c.call.N * c.call.OH) * row), expected(row);
  bilinear_u8(c.call, c.src.data(), dst.data());
  GuardedVector<float> between(static_cast<size_t>(c.call.W * c.call.C));
  for (int64_t i = 0; i < c.call.N * c.call.OH; ++i) {
    const uint8_t* image = c.src.data() + i / c.call.OH * c.call.H * c.call.W * c.call.C;
    bilinear_ref(c.call, image, i % c.call.OH, expected.data(), between.data());
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), dst.begin() + i * static_cast<int64_t>(row)))
        << i;
  }
}

TEST(BilinearList, EndsInRef) { EXPECT_EQ(bilinear_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
