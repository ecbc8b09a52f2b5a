#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "conv_f32_case.h"
#include "emulated.h"
#include "kernel_rows.h"
#include "kernels/conv_f32/conv_f32.h"
#include "kernels/conv_f32/packed.h"

namespace cpuaccel::kernels {
namespace {

class ConvF32Test : public testing::TestWithParam<KernelRow<GemmFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, ConvF32Test, testing::ValuesIn(usable_rows(gemm_kernels())),
                         RowName());

void check_packed(const Conv2dShape& s, ImageLayout layout, ConvF32Case& operands,
                  GemmFunction* row) {
  const int64_t K = s.C / s.groups * s.taps(), N = s.OC / s.groups;
  const auto weights = operands.weights(ImageLayout::channels_first);
  std::vector<GemmPacked> packed;
  for (int64_t g = 0; g < s.groups; ++g) {
    packed.emplace_back(
        GemmMatrix{.data = weights.data() + g * N * K, .row_stride = 1, .column_stride = K}, K, N,
        row);
  }
  const auto src = operands.src(layout);
  operands.clear();
  conv_f32_packed({s, layout, src.data(), packed, operands.bias(), operands.dst()});
  operands.check(layout);
}

void check(const Conv2dShape& shape, GemmFunction* row, std::mt19937& random) {
  const auto s = with_result_sizes(shape);
  if (s.OH < 1 || s.OW < 1) {
    return;
  }
  SCOPED_TRACE(to_text(s));
  ASSERT_TRUE(conv_f32_takes(s));
  for (const auto layout : {ImageLayout::channels_first, ImageLayout::channels_last}) {
    ConvF32Case operands(random, s, s.OC % 2 == 1);
    const auto src = operands.src(layout);
    const auto weights = operands.weights(layout);
    conv_f32({s, layout, src.data(), weights.data(), operands.bias(), operands.dst()}, row);
    operands.check(layout);
    check_packed(s, layout, operands, row);
  }
}

Conv2dShape square(int64_t C, int64_t OC, int64_t size, int64_t K, int64_t S, int64_t P) {
  return {.C = C,
          .IH = size,
          .IW = size,
          .OC = OC,
          .KH = K,
          .KW = K,
          .SH = S,
          .SW = S,
          .PH = P,
          .PW = P};
}

TEST_P(ConvF32Test, EverySize) {
  std::mt19937 random(1);
  for (int64_t size = 1; size <= 36; size += every(3)) {
    for (const int64_t S : {1, 2, 3}) {
      check(square(2, 5, size, 3, S, 1), GetParam().function, random);
    }
    check(square(3, 4, size, 1, 1, 0), GetParam().function, random);
  }
}

TEST_P(ConvF32Test, MoreTermsThanABlock) {
  std::mt19937 random(2);
  check(square(67, 9, 7, 3, 1, 1), GetParam().function, random);
  check(square(3, 7, 33, 7, 2, 3), GetParam().function, random);
  check(square(600, 7, 5, 1, 1, 0), GetParam().function, random);
  if (!is_emulated()) {
    check(square(1, 3, 40, 31, 1, 15), GetParam().function, random);
  }
}

TEST_P(ConvF32Test, RandomShapes) {
  std::mt19937 random(3);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int64_t i = 0; i < 300; i += every(3)) {
    const int64_t groups = i / every(3) % 3 == 0 ? pick(2, 4) : 1;
    check({.N = pick(1, 3),
           .C = groups * pick(1, 9),
           .IH = pick(1, 12),
           .IW = pick(1, 40),
           .OC = groups * pick(1, 15),
           .groups = groups,
           .KH = pick(1, 5),
           .KW = pick(1, 5),
           .SH = pick(1, 4),
           .SW = pick(1, 4),
           .PH = pick(0, 6),
           .PW = pick(0, 6),
           .DH = pick(1, 3),
           .DW = pick(1, 3)},
          GetParam().function, random);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
