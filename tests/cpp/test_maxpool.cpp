#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/maxpool/maxpool.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<MaxpoolFunction>;
class MaxpoolTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, MaxpoolTest, testing::ValuesIn(usable_rows(maxpool_kernels())),
                         RowName());

struct Image {
  explicit Image(const MaxpoolShape& shape)
      : src(static_cast<size_t>(shape.H * shape.W * shape.C)) {
    std::mt19937 generator(static_cast<unsigned>(shape.C));
    for (auto& value : src) {
      value = static_cast<uint8_t>(generator() % 256);
    }
  }
  GuardedVector<uint8_t> src;
};

// The formula of maxpool.h for one byte; zeros around the image change no maximum of bytes.
uint8_t expected_value(const MaxpoolShape& s, const GuardedVector<uint8_t>& src, int64_t oh,
                       int64_t ow, int64_t c) {
  GuardedVector<uint8_t> taps{0};
  for (int64_t h = oh * s.SH - s.PH; h < oh * s.SH - s.PH + s.KH * s.DH; h += s.DH) {
    for (int64_t w = ow * s.SW - s.PW; w < ow * s.SW - s.PW + s.KW * s.DW; w += s.DW) {
      const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
      taps.push_back(inside ? src[static_cast<size_t>((h * s.W + w) * s.C + c)] : 0);
    }
  }
  return *std::max_element(taps.begin(), taps.end());
}

void check(MaxpoolFunction* function, MaxpoolShape s) {
  const Image image(s);
  // Blocks of exactly this size, so that AddressSanitizer detects any byte accessed past them.
  GuardedVector<uint8_t> scratch(static_cast<size_t>(s.W * s.C));
  for (int64_t oh = 0; oh < s.OH; ++oh) {
    GuardedVector<uint8_t> dst(static_cast<size_t>(s.OW * s.C), 0xa5);
    function(s, image.src.data(), oh, dst.data(), scratch.data());
    for (int64_t ow = 0; ow < s.OW; ++ow) {
      for (int64_t c = 0; c < s.C; ++c) {
        ASSERT_EQ(dst[static_cast<size_t>(ow * s.C + c)], expected_value(s, image.src, oh, ow, c))
            << "C " << s.C << " oh " << oh << " ow " << ow << " c " << c;
      }
    }
  }
}

int64_t result_size(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation) {
  return (size + 2 * padding - (taps - 1) * dilation - 1) / stride + 1;
}

MaxpoolShape sized(MaxpoolShape s) {
  s.OH = result_size(s.H, s.KH, s.SH, s.PH, s.DH);
  s.OW = result_size(s.W, s.KW, s.SW, s.PW, s.DW);
  return s;
}

TEST_P(MaxpoolTest, EveryChannelCount) {
  for (int64_t channels = 1; channels <= 100; ++channels) {
    const int64_t stride = 1 + channels % 2;
    check(GetParam().function, sized({.N = 1,
                                      .H = 5,
                                      .W = 6,
                                      .C = channels,
                                      .KH = 3,
                                      .KW = 3,
                                      .SH = stride,
                                      .SW = stride,
                                      .PH = 1,
                                      .PW = 1}));
  }
  check(GetParam().function,
        sized({.N = 1, .H = 4, .W = 4, .C = 300, .KH = 2, .KW = 2, .SH = 2, .SW = 2}));
}

TEST_P(MaxpoolTest, EveryGeometry) {
  for (int64_t taps = 1; taps <= 5; ++taps) {
    for (int64_t stride = 1; stride <= 3; ++stride) {
      for (int64_t dilation = 1; dilation <= 3; ++dilation) {
        for (int64_t padding = 0; padding <= taps / 2; ++padding) {
          for (const int64_t channels : {3, 24}) {
            const int64_t size = std::max<int64_t>(7, (taps - 1) * dilation + 1 - 2 * padding);
            check(GetParam().function, sized({.N = 1,
                                              .H = size,
                                              .W = size + 2,
                                              .C = channels,
                                              .KH = taps,
                                              .KW = taps,
                                              .SH = stride,
                                              .SW = stride,
                                              .PH = padding,
                                              .PW = padding,
                                              .DH = dilation,
                                              .DW = dilation}));
          }
        }
      }
    }
  }
}

TEST_P(MaxpoolTest, WindowsThatLeaveTheImage) {
  // As with ceil_mode: the last window starts inside and ends outside.
  check(GetParam().function,
        {.N = 1, .H = 5, .W = 5, .C = 40, .OH = 3, .OW = 3, .KH = 3, .KW = 3, .SH = 2, .SW = 2});
  // If the whole image lies between the taps of a window, the result is 0.
  check(
      GetParam().function,
      sized(
          {.N = 1, .H = 1, .W = 1, .C = 40, .KH = 2, .KW = 2, .PH = 1, .PW = 1, .DH = 2, .DW = 2}));
}

TEST(Maxpool, AllImagesAndRows) {
  const auto shape = sized(
      {.N = 3, .H = 40, .W = 41, .C = 35, .KH = 3, .KW = 2, .SH = 2, .SW = 1, .PH = 1, .PW = 0});
  GuardedVector<uint8_t> src(static_cast<size_t>(shape.N * shape.H * shape.W * shape.C));
  std::mt19937 generator(1);
  for (auto& value : src) {
    value = static_cast<uint8_t>(generator() % 256);
  }
  const auto row = static_cast<size_t>(shape.OW * shape.C);
  GuardedVector<uint8_t> dst(static_cast<size_t>(shape.N * shape.OH) * row);
  maxpool_u8(shape, src.data(), dst.data());
  GuardedVector<uint8_t> expected(row);
  for (int64_t n = 0; n < shape.N; ++n) {
    for (int64_t oh = 0; oh < shape.OH; ++oh) {
      maxpool_ref(shape, src.data() + n * shape.H * shape.W * shape.C, oh, expected.data(),
                  nullptr);
      const auto begin = dst.begin() + static_cast<int64_t>(row) * (n * shape.OH + oh);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), begin)) << n << " " << oh;
    }
  }
}

TEST(MaxpoolList, EndsInRef) { EXPECT_EQ(maxpool_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
