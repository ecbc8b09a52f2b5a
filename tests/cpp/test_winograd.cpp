#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/winograd/winograd.h"
#include "sines.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Sizes {
  int64_t images, height, width, in, out, top, left, bottom, right;
  bool bias = true, addend = false, relu = false, per_channel = false;
};

struct Case {
  Case(const Sizes& of, int64_t m)
      : sizes(of),
        tile(m),
        to_height(of.height + of.top + of.bottom - 2),
        to_width(of.width + of.left + of.right - 2),
        src(floats(of.images * of.height * of.width * of.in, 0.37f)),
        weights(floats(of.out * of.in * 9, 0.71f)),
        bias(floats(of.out, 0.11f)),
        addend(
            floats(of.per_channel ? of.images * of.out : of.images * to_height * to_width * of.out,
                   0.23f)),
        dst(static_cast<size_t>(of.images * to_height * to_width * of.out)) {}

  void run(WinogradFunction* row) {
    const WinogradWeights packed(weights.data(), {sizes.in * 9, 9, 3, 1}, sizes.out, sizes.in,
                                 tile);
    WinogradCall call{};
    call.src = src.data();
    call.from = {sizes.height, sizes.width, sizes.in, sizes.height * sizes.width * sizes.in};
    call.images = sizes.images;
    call.top = sizes.top;
    call.left = sizes.left;
    call.bias = sizes.bias ? bias.data() : nullptr;
    if (sizes.addend) {
      call.addend = addend.data();
      call.addend_pixel = sizes.per_channel ? 0 : sizes.out;
      call.addend_row = sizes.per_channel ? 0 : to_width * sizes.out;
      call.addend_image = sizes.per_channel ? sizes.out : to_height * to_width * sizes.out;
    }
    call.lowest = sizes.relu ? 0.0f : kNone;
    call.dst = dst.data();
    call.to = {to_height, to_width, sizes.out, to_height * to_width * sizes.out};
    winograd(call, packed, row);
  }

  double src_at(int64_t n, int64_t y, int64_t x, int64_t i) const {
    const bool inside = 0 <= y && y < sizes.height && 0 <= x && x < sizes.width;
    return inside ? static_cast<double>(
                        src.data()[((n * sizes.height + y) * sizes.width + x) * sizes.in + i])
                  : 0.0;
  }

  // The formula in float64, and the sum of its terms' magnitudes with the largest source in place
  // of each: the header's bound is at most `growth` times that.
  void check() const {
    const double growth = tile == 2 ? 16 : 860;
    for (int64_t n = 0; n < sizes.images; ++n) {
      for (int64_t y = 0; y < to_height; ++y) {
        for (int64_t x = 0; x < to_width; ++x) {
          for (int64_t o = 0; o < sizes.out; ++o) {
            check_one(n, y, x, o, growth);
          }
        }
      }
    }
  }

  void check_one(int64_t n, int64_t y, int64_t x, int64_t o, double growth) const {
    double sum = sizes.bias ? static_cast<double>(bias.data()[o]) : 0;
    double magnitude = std::fabs(sum);
    const int64_t at = ((n * to_height + y) * to_width + x) * sizes.out + o;
    if (sizes.addend) {
      const double more =
          static_cast<double>(addend.data()[sizes.per_channel ? n * sizes.out + o : at]);
      sum += more;
      magnitude += std::fabs(more);
    }
    for (int64_t i = 0; i < sizes.in; ++i) {
      for (int64_t a = 0; a < 3; ++a) {
        for (int64_t b = 0; b < 3; ++b) {
          const double weight =
              static_cast<double>(weights.data()[((o * sizes.in + i) * 3 + a) * 3 + b]);
          sum += weight * src_at(n, y + a - sizes.top, x + b - sizes.left, i);
          magnitude += std::fabs(weight) * 3;  // sources are at most 3
        }
      }
    }
    const double exact = sizes.relu ? std::max(sum, 0.0) : sum;
    const double bound = static_cast<double>(sizes.in + 40) * 0x1p-24 * growth * magnitude;
    ASSERT_LE(std::fabs(static_cast<double>(dst.data()[at]) - exact), bound)
        << n << " " << y << " " << x << " " << o;
  }

  Sizes sizes;
  int64_t tile, to_height, to_width;
  GuardedVector<float> src, weights, bias, addend, dst;
};

constexpr std::array kSizes{
    Sizes{1, 1, 1, 1, 1, 1, 1, 1, 1},
    Sizes{2, 5, 7, 3, 5, 1, 1, 1, 1, true, true},
    Sizes{1, 8, 8, 17, 33, 1, 1, 1, 1, false, false, true},
    Sizes{1, 9, 6, 16, 40, 0, 0, 0, 0, true, true, true},
    Sizes{3, 4, 13, 20, 8, 2, 0, 1, 2, true, true, false, true},
    Sizes{1, 40, 40, 64, 64, 1, 1, 1, 1, true, true},
};

class WinogradTest : public testing::TestWithParam<KernelRow<WinogradFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, WinogradTest, testing::ValuesIn(usable_rows(winograd_kernels())),
                         RowName());

TEST_P(WinogradTest, IsTheConvolution) {
  for (const int64_t tile : {2, 4}) {
    for (const auto& sizes : kSizes) {
      SCOPED_TRACE(testing::Message() << tile << ": " << sizes.height << "x" << sizes.width);
      Case each(sizes, tile);
      each.run(GetParam().function);
      each.check();
    }
  }
}

TEST_P(WinogradTest, HasTheBitsOfTheReferenceTransforms) {
  for (const int64_t tile : {2, 4}) {
    for (const auto& sizes : kSizes) {
      Case found(sizes, tile), expected(sizes, tile);
      found.run(GetParam().function);
      expected.run(winograd_ref);
      EXPECT_TRUE(
          std::equal(found.dst.data(), found.dst.data() + found.dst.size(), expected.dst.data()));
    }
  }
}

TEST_P(WinogradTest, ThreadsDoNotMatter) {
  for (const int64_t tile : {2, 4}) {
    for (const auto& sizes : kSizes) {
      Case one(sizes, tile), several(sizes, tile);
      one.run(GetParam().function);
      for (const int threads : {2, 3, 5, 16}) {
        const Threads running(threads);
        several.run(GetParam().function);
        EXPECT_TRUE(std::equal(one.dst.data(), one.dst.data() + one.dst.size(), several.dst.data()))
            << threads << " threads, tile " << tile << ", " << sizes.height << "x" << sizes.width;
      }
    }
  }
}

TEST_P(WinogradTest, MayOverwriteTheAddend) {
  Case expected(kSizes[5], 4), found(kSizes[5], 4);
  expected.run(GetParam().function);
  std::copy_n(found.addend.data(), found.dst.size(), found.dst.data());
  const WinogradWeights packed(found.weights.data(), {64 * 9, 9, 3, 1}, 64, 64, 4);
  WinogradCall call{};
  call.src = found.src.data();
  call.from = call.to = {40, 40, 64, 40 * 40 * 64};
  call.images = call.top = call.left = 1;
  call.bias = found.bias.data();
  call.addend = call.dst = found.dst.data();
  call.addend_pixel = 64;
  call.addend_row = 40 * 64;
  call.lowest = kNone;
  winograd(call, packed, GetParam().function);
  EXPECT_TRUE(
      std::equal(found.dst.data(), found.dst.data() + found.dst.size(), expected.dst.data()));
}

TEST(WinogradList, EndsInRef) { EXPECT_EQ(winograd_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
