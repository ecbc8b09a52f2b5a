#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/quantize/quantize.h"
#include "kernels/zero_point.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<QuantizeFunction>;
class QuantizeTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, QuantizeTest, testing::ValuesIn(usable_rows(quantize_kernels())),
                         RowName());

constexpr auto kBefore = ZeroPointAdded::before_rounding;
constexpr auto kAfter = ZeroPointAdded::after_rounding;

// Restores after a test where the zero point is added.
class Added {
 public:
  explicit Added(ZeroPointAdded where) : before_(zero_point_added()) {
    set_zero_point_added(where);
  }
  ~Added() { set_zero_point_added(before_); }
  Added(const Added&) = delete;
  Added& operator=(const Added&) = delete;

 private:
  ZeroPointAdded before_;
};

// The formula of quantize.h. The product of two floats is exact in double. Its sum with an integer
// is exact too, because the product is less than 2^20 here.
uint8_t expected_value(float src, const QuantizeBy& by) {
  const double sum = static_cast<double>(src) * by.inverse_scale + by.before;
  const double rounded = std::nearbyint(static_cast<double>(static_cast<float>(sum))) + by.after;
  return static_cast<uint8_t>(std::fmin(std::fmax(rounded, 0.0), 255.0));
}

TEST_P(QuantizeTest, EveryLengthAndZeroPoint) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  for (int64_t count = 1; count <= 100; ++count) {
    const auto zero_point = static_cast<int32_t>(count * 37 % 256);
    const Added added(count % 2 == 0 ? kBefore : kAfter);
    const QuantizeBy by = quantize_by(1.0f / 0.043f, zero_point);
    GuardedVector<float> src(static_cast<size_t>(count));
    for (auto& value : src) {
      value = normal(generator);
    }
    GuardedVector<uint8_t> dst(static_cast<size_t>(count) + 1, 0xa5);
    GetParam().function(src.data(), dst.data(), count, by);
    for (size_t i = 0; i < src.size(); ++i) {
      EXPECT_EQ(dst[i], expected_value(src[i], by)) << count << " " << i;
    }
    EXPECT_EQ(dst.back(), 0xa5) << "wrote past the end at length " << count;
  }
}

TEST_P(QuantizeTest, TiesGoToEven) {
  const GuardedVector<float> src{0.5f, 1.5f, 2.5f, 3.5f, -0.5f, -1.5f, 254.5f, 255.5f};
  GuardedVector<uint8_t> dst(src.size());
  const auto run = [&](ZeroPointAdded where, int32_t zero_point) {
    const Added added(where);
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(src.size()),
                        quantize_by(1.0f, zero_point));
    return dst;
  };
  for (const auto where : {kBefore, kAfter}) {
    EXPECT_EQ(run(where, 0), (GuardedVector<uint8_t>{0, 2, 2, 4, 0, 0, 254, 255}));
  }
  // If the zero point is odd and added before rounding, the other neighbor is even.
  EXPECT_EQ(run(kBefore, 7), (GuardedVector<uint8_t>{8, 8, 10, 10, 6, 6, 255, 255}));
  EXPECT_EQ(run(kAfter, 7), (GuardedVector<uint8_t>{7, 9, 9, 11, 7, 5, 255, 255}));
}

TEST_P(QuantizeTest, HugeInfiniteAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();
  GuardedVector<float> src(40, std::numeric_limits<float>::quiet_NaN());
  src[0] = infinity;
  src[1] = -infinity;
  src[2] = largest;
  src[3] = -largest;
  GuardedVector<uint8_t> dst(src.size());
  const auto run = [&](const QuantizeBy& by) {
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(src.size()), by);
    EXPECT_EQ(dst[39], dst[4]);
    return std::vector<int>(dst.begin(), dst.begin() + 5);
  };
  for (const auto where : {kBefore, kAfter}) {
    const Added added(where);
    EXPECT_EQ(run(quantize_by(10.0f, 7)), (std::vector{255, 0, 255, 0, 255}));
    EXPECT_EQ(run(quantize_by(10.0f, 7, 128)), (std::vector{127, 128, 127, 128, 127}));
  }
  const Added added(kBefore);
  EXPECT_EQ(run(quantize_by(10.0f, 200)), (std::vector{255, 0, 255, 0, 255}));
}

// torch from 2.14 on: the limit plus the zero point wraps around.
TEST_P(QuantizeTest, SumsAfterRoundingWrapAround) {
  const Added added(kAfter);
  const float infinity = std::numeric_limits<float>::infinity();
  const GuardedVector<float> src{infinity, -infinity, 2147483392.0f, -2147483648.0f, 3e9f};
  GuardedVector<uint8_t> dst(src.size());
  const auto run = [&](const QuantizeBy& by) {
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(src.size()), by);
    return std::vector<int>(dst.begin(), dst.end());
  };
  EXPECT_EQ(run(quantize_by(1.0f, 127)), (std::vector{255, 0, 255, 0, 255}));
  EXPECT_EQ(run(quantize_by(1.0f, 128)), (std::vector{0, 0, 255, 0, 0}));
  EXPECT_EQ(run(quantize_by(1.0f, 127, 128)), (std::vector{127, 128, 127, 128, 127}));
  EXPECT_EQ(run(quantize_by(1.0f, -1, 128)), (std::vector{127, 127, 127, 127, 127}));
}

TEST_P(QuantizeTest, Signed) {
  for (int32_t zero_point = -128; zero_point < 128; zero_point += 15) {
    const Added added(zero_point % 2 == 0 ? kBefore : kAfter);
    const QuantizeBy by = quantize_by(1.0f, zero_point, 128);
    GuardedVector<float> src;
    for (int value = -300; value <= 300; ++value) {
      src.push_back(static_cast<float>(value) * 0.5f);
    }
    GuardedVector<uint8_t> dst(src.size());
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(src.size()), by);
    for (size_t i = 0; i < src.size(); ++i) {
      const double rounded = std::nearbyint(static_cast<double>(src[i]) + by.before) + by.after;
      EXPECT_EQ(static_cast<int8_t>(dst[i]), std::fmin(std::fmax(rounded, -128.0), 127.0))
          << src[i];
    }
  }
}

using ScaledRow = KernelRow<QuantizeScaledFunction>;
class QuantizeScaledTest : public testing::TestWithParam<ScaledRow> {};

INSTANTIATE_TEST_SUITE_P(Rows, QuantizeScaledTest,
                         testing::ValuesIn(usable_rows(quantize_scaled_kernels())), RowName());

TEST_P(QuantizeScaledTest, EveryLength) {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  for (int64_t count = 1; count <= 100; ++count) {
    const auto size = static_cast<size_t>(count);
    GuardedVector<float> src(size), factors(size);
    for (size_t i = 0; i < size; ++i) {
      src[i] = normal(generator);
      factors[i] = normal(generator);
    }
    src[size / 2] = std::numeric_limits<float>::infinity();
    GuardedVector<uint8_t> dst(size + 1, 0xa5);
    const Added added(count % 2 == 0 ? kBefore : kAfter);
    const QuantizeBy by = quantize_by(20.0f, 90);
    GetParam().function(src.data(), factors.data(), dst.data(), count, by);
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(dst[i], expected_value(src[i] * factors[i], by)) << count << " " << i;
    }
    EXPECT_EQ(dst.back(), 0xa5) << "wrote past the end at length " << count;
  }
}

TEST(Quantize, FactorsForEachImageAndChannel) {
  const QuantizeRows shape{3, 700, 37};
  GuardedVector<float> src(static_cast<size_t>(shape.images * shape.rows * shape.columns));
  GuardedVector<float> factors(static_cast<size_t>(shape.images * shape.columns));
  for (size_t i = 0; i < src.size(); ++i) {
    src[i] = static_cast<float>(i % 11);
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i] = static_cast<float>(i % 23);
  }
  GuardedVector<uint8_t> dst(src.size());
  quantize_scaled_u8(src.data(), factors.data(), dst.data(), shape, 1.0f, 3);
  for (size_t i = 0; i < src.size(); ++i) {
    const size_t column = i % 37, image = i / (700 * 37);
    ASSERT_EQ(dst[i], std::fmin(src[i] * factors[image * 37 + column] + 3.0f, 255.0f)) << i;
  }
}

// Sizes around those of a block: 8192 bytes, at least 64 pixels.
TEST(Quantize, PlanesBecomeChannelsLast) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  for (const QuantizePlanes shape :
       {QuantizePlanes{1, 3, 224 * 224}, QuantizePlanes{2, 3, 2731}, QuantizePlanes{3, 1, 8193},
        QuantizePlanes{2, 17, 49}, QuantizePlanes{1, 200, 65}, QuantizePlanes{1, 4, 1}}) {
    const auto [images, channels, pixels] = shape;
    const auto count = static_cast<size_t>(images * channels * pixels);
    GuardedVector<float> src(count);
    for (auto& value : src) {
      value = normal(generator);
    }
    GuardedVector<uint8_t> planes(count), dst(count + 1, 0xa5);
    quantize_u8(src.data(), planes.data(), static_cast<int64_t>(count), 0.05f, 100);
    quantize_planes_u8(src.data(), dst.data(), shape, 0.05f, 100);
    for (int64_t n = 0; n < images; ++n) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t p = 0; p < pixels; ++p) {
          ASSERT_EQ(dst[static_cast<size_t>((n * pixels + p) * channels + c)],
                    planes[static_cast<size_t>((n * channels + c) * pixels + p)])
              << channels << "x" << pixels << " at " << n << " " << c << " " << p;
        }
      }
    }
    EXPECT_EQ(dst.back(), 0xa5);
  }
}

TEST(Quantize, LongerThanOneThreadsShare) {
  GuardedVector<float> src(50'001);
  for (size_t i = 0; i < src.size(); ++i) {
    src[i] = static_cast<float>(i % 300) - 150.0f;
  }
  const auto count = static_cast<int64_t>(src.size());
  GuardedVector<uint8_t> unsigned_dst(src.size());
  GuardedVector<int8_t> signed_dst(src.size());
  quantize_u8(src.data(), unsigned_dst.data(), count, 1.0f, 100);
  quantize_s8(src.data(), signed_dst.data(), count, 1.0f, -28);
  for (size_t i = 0; i < src.size(); ++i) {
    ASSERT_EQ(unsigned_dst[i], std::fmin(std::fmax(src[i] + 100.0f, 0.0f), 255.0f)) << i;
    ASSERT_EQ(int{signed_dst[i]}, int{unsigned_dst[i]} - 128) << i;
  }
}

TEST(QuantizeList, EndsInRef) { EXPECT_EQ(quantize_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
