#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/maxpool_f32/maxpool_f32.h"

namespace cpuaccel::kernels {
namespace {

class MaxpoolF32Test : public testing::TestWithParam<KernelRow<MaxpoolF32Function>> {};

INSTANTIATE_TEST_SUITE_P(Rows, MaxpoolF32Test,
                         testing::ValuesIn(usable_rows(maxpool_f32_kernels())), RowName());

int64_t result_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                    int64_t dilation) {
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

void check(MaxpoolF32Shape s, MaxpoolF32Function* function, std::mt19937& random) {
  s.planes = 1;
  s.OH = result_size(s.H, s.KH, s.SH, s.PH, s.DH);
  s.OW = result_size(s.W, s.KW, s.SW, s.PW, s.DW);
  if (s.OH < 1 || s.OW < 1) {
    return;
  }
  SCOPED_TRACE(testing::Message() << s.H << "x" << s.W << " K" << s.KH << "x" << s.KW << " S"
                                  << s.SH << "x" << s.SW << " P" << s.PH << "x" << s.PW << " D"
                                  << s.DH << "x" << s.DW);
  // Few distinct values, so that many are equal, with NaNs and infinities among them.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::uniform_int_distribution<int> any(0, 40);
  GuardedVector<float> src(static_cast<size_t>(s.H * s.W));
  for (auto& value : src) {
    const int drawn = any(random);
    value = drawn == 0 ? std::nanf("") : drawn < 9 ? -kInfinity : static_cast<float>(drawn % 7);
  }
  const auto count = static_cast<size_t>(s.OH * s.OW);
  GuardedVector<float> dst(count);
  GuardedVector<int64_t> indices(count);
  function(s, src.data(), dst.data(), indices.data());
  for (int64_t i = 0; i < s.OH * s.OW; ++i) {
    int64_t place = -1;
    for (int64_t kh = 0; kh < s.KH; ++kh) {
      for (int64_t kw = 0; kw < s.KW; ++kw) {
        const int64_t h = i / s.OW * s.SH - s.PH + kh * s.DH;
        const int64_t w = i % s.OW * s.SW - s.PW + kw * s.DW;
        if (h < 0 || h >= s.H || w < 0 || w >= s.W) {
          continue;
        }
        const float value = src[static_cast<size_t>(h * s.W + w)];
        if (place < 0 || value > src[static_cast<size_t>(place)] || std::isnan(value)) {
          place = h * s.W + w;
        }
      }
    }
    const auto at = static_cast<size_t>(i);
    const float expected = src[static_cast<size_t>(place)];
    ASSERT_EQ(indices[at], place) << i;
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(dst[at]) : dst[at] == expected) << i;
  }
}

TEST_P(MaxpoolF32Test, EveryWidth) {
  std::mt19937 random(1);
  for (int64_t W = 1; W <= 50; ++W) {
    check({.H = 5, .W = W, .KH = 3, .KW = 3, .SH = 2, .SW = 2, .PH = 1, .PW = 1},
          GetParam().function, random);
    check({.H = 4, .W = W, .KH = 2, .KW = 2, .SH = 2, .SW = 2}, GetParam().function, random);
    check({.H = 4, .W = W, .KH = 3, .KW = 3, .PH = 1, .PW = 1}, GetParam().function, random);
  }
}

TEST_P(MaxpoolF32Test, RandomWindows) {
  std::mt19937 random(2);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 500; ++i) {
    MaxpoolF32Shape s{.H = pick(1, 12),
                      .W = pick(1, 40),
                      .KH = pick(1, 5),
                      .KW = pick(1, 5),
                      .SH = pick(1, 3),
                      .SW = pick(1, 3),
                      .DH = pick(1, 3),
                      .DW = pick(1, 3)};
    s.PH = pick(0, s.KH / 2);
    s.PW = pick(0, s.KW / 2);
    if (s.DH * (s.KH - 1) < s.H && s.DW * (s.KW - 1) < s.W) {
      check(s, GetParam().function, random);
    }
  }
}

TEST(MaxpoolF32List, EndsInRef) { EXPECT_EQ(maxpool_f32_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
