#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "conv_f32_case.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/dwconv_f32/dwconv_f32.h"

namespace cpuaccel::kernels {
namespace {

class DwconvF32Test : public testing::TestWithParam<KernelRow<DwconvF32Function>> {};

INSTANTIATE_TEST_SUITE_P(Rows, DwconvF32Test, testing::ValuesIn(usable_rows(dwconv_f32_kernels())),
                         RowName());

// Reorders OC x KH x KW to KH x KW x OC.
GuardedVector<float> taps_first(const Conv2dShape& s, const GuardedVector<float>& weights) {
  GuardedVector<float> result(weights.size());
  for (int64_t c = 0; c < s.OC; ++c) {
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      result[static_cast<size_t>(tap * s.OC + c)] =
          weights[static_cast<size_t>(c * s.taps() + tap)];
    }
  }
  return result;
}

void check(const Conv2dShape& shape, DwconvF32Function* function, std::mt19937& random) {
  const auto s = with_result_sizes(shape);
  if (s.OH < 1 || s.OW < 1) {
    return;
  }
  SCOPED_TRACE(to_text(s));
  for (const auto layout : {ImageLayout::channels_first, ImageLayout::channels_last}) {
    if (layout == ImageLayout::channels_last && s.OC != s.C) {
      continue;
    }
    ConvF32Case operands(random, s, s.C % 2 == 1);
    const auto src = operands.src(layout);
    auto weights = operands.weights(ImageLayout::channels_first);
    weights = layout == ImageLayout::channels_last ? taps_first(s, weights) : weights;
    const DwconvF32Call call{
        s, layout, src.data(), weights.data(), operands.bias(), operands.dst()};
    dwconv_f32(call, function);
    operands.check(layout);
  }
}

Conv2dShape depthwise(int64_t N, int64_t C, int64_t IH, int64_t IW, int64_t K, int64_t S, int64_t P,
                      int64_t D = 1) {
  return {.N = N,
          .C = C,
          .IH = IH,
          .IW = IW,
          .OC = C,
          .groups = C,
          .KH = K,
          .KW = K,
          .SH = S,
          .SW = S,
          .PH = P,
          .PW = P,
          .DH = D,
          .DW = D};
}

TEST_P(DwconvF32Test, EveryWidthAndHeight) {
  std::mt19937 random(1);
  for (const int64_t K : {3, 5}) {
    for (const int64_t S : {1, 2}) {
      for (int64_t size = 1; size <= 41; ++size) {
        check(depthwise(1, 2, 9, size, K, S, K / 2), GetParam().function, random);
        check(depthwise(1, 1, size, 9, K, S, K / 2), GetParam().function, random);
      }
    }
  }
}

TEST_P(DwconvF32Test, EveryChannelCount) {
  std::mt19937 random(2);
  for (int64_t C = 1; C <= 40; ++C) {
    check(depthwise(2, C, 4, 7, 3, 1, 1), GetParam().function, random);
  }
}

TEST_P(DwconvF32Test, KernelsStridesAndDilations) {
  std::mt19937 random(3);
  for (const int64_t K : {1, 2, 3, 4, 5, 7, 9}) {
    for (const int64_t S : {1, 2, 3}) {
      for (const int64_t D : {1, 2}) {
        for (const int64_t P : {int64_t{0}, K / 2, K}) {
          check(depthwise(1, 3, 22, 23, K, S, P, D), GetParam().function, random);
        }
      }
    }
  }
}

TEST_P(DwconvF32Test, StripsOfALargePlane) {
  std::mt19937 random(4);
  for (const int64_t S : {1, 2}) {
    check(depthwise(1, 1, 131, 117, 3, S, 1), GetParam().function, random);
    check(depthwise(1, 1, 67, 211, 5, S, 2), GetParam().function, random);
  }
  check(depthwise(1, 1, 5, 5003, 3, 1, 1), GetParam().function, random);
}

TEST_P(DwconvF32Test, RandomShapes) {
  std::mt19937 random(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 400; ++i) {
    Conv2dShape s{.N = pick(1, 3),
                  .C = pick(1, 20),
                  .IH = pick(1, 12),
                  .IW = pick(1, 40),
                  .KH = pick(1, 8),
                  .KW = pick(1, 8),
                  .SH = pick(1, 4),
                  .SW = pick(1, 4),
                  .PH = pick(0, 9),
                  .PW = pick(0, 9),
                  .DH = pick(1, 3),
                  .DW = pick(1, 3)};
    s.groups = s.C;
    s.OC = s.C * (i % 4 == 0 ? pick(2, 3) : 1);
    check(s, GetParam().function, random);
  }
}

TEST(DwconvF32List, EndsInRef) { EXPECT_EQ(dwconv_f32_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
