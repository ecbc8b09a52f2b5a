#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/gemm/half.h"
#include "sines.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class BatchNormTest : public testing::TestWithParam<KernelRow<BatchNormFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, BatchNormTest, testing::ValuesIn(usable_rows(batch_norm_kernels())),
                         RowName());

constexpr float kNone = -std::numeric_limits<float>::infinity();

template <typename T>
GuardedVector<T> numbers(int64_t count, float by) {
  if constexpr (sizeof(T) == 4) {
    return floats(count, by);
  } else {
    return halves(count, by);
  }
}

// A fused operation rounds once, but a sum of a product in float64 may round twice. If the sum is a
// tie, the neighboring float is correct too.
void expect_near(float found, float src, float scale, float shift, float lowest) {
  const double exact =
      std::max(static_cast<double>(src) * static_cast<double>(scale) + static_cast<double>(shift),
               static_cast<double>(lowest));
  EXPECT_LE(std::fabs(static_cast<double>(found) - exact), std::fabs(exact) * 0x1p-24 + 1e-45);
}
void expect_near(uint16_t found, uint16_t src, float scale, float shift, float lowest) {
  const float exact = std::max(std::fma(bf16_to_float(src), scale, shift), lowest);
  EXPECT_EQ(found, float_to_bf16(exact));
}

template <typename T>
void run(const BatchNormKernels& kernels, const BatchNormNumbers& given,
         const BatchNormRows<T>& rows) {
  if constexpr (sizeof(T) == 4) {
    kernels.f32(given, rows);
  } else {
    const auto columns = static_cast<size_t>(given.columns);
    const auto scale = arranged_for_pairs({given.scale, columns}, kernels.lanes);
    const auto shift = arranged_for_pairs({given.shift, columns}, kernels.lanes);
    kernels.bf16({given.columns, scale.data(), shift.data(), given.lowest}, rows);
  }
}

template <typename T>
void check(const BatchNormKernels& kernels, int64_t columns, float lowest) {
  constexpr int64_t kRows = 3, kSrcGap = 5, kDstGap = 2;
  const int64_t src_stride = columns + kSrcGap, dst_stride = columns + kDstGap;
  const auto src = numbers<T>(kRows * src_stride, 0.7f);
  const auto scale = floats(columns, 1.3f), shift = floats(columns, 0.4f);
  const T untouched = 77;
  GuardedVector<T> dst(static_cast<size_t>(kRows * dst_stride), untouched);
  run<T>(kernels, {columns, scale.data(), shift.data(), lowest},
         {src.data(), dst.data(), kRows, src_stride, dst_stride});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < dst_stride; ++c) {
      const T found = dst[static_cast<size_t>(r * dst_stride + c)];
      if (c >= columns) {
        ASSERT_EQ(found, untouched);
        continue;
      }
      const auto at = static_cast<size_t>(c);
      expect_near(found, src[static_cast<size_t>(r * src_stride + c)], scale[at], shift[at],
                  lowest);
    }
  }
  auto in_place = src;
  run<T>(kernels, {columns, scale.data(), shift.data(), lowest},
         {in_place.data(), in_place.data(), kRows, src_stride, src_stride});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      ASSERT_EQ(in_place[static_cast<size_t>(r * src_stride + c)],
                dst[static_cast<size_t>(r * dst_stride + c)]);
    }
  }
}

TEST_P(BatchNormTest, EveryWidth) {
  for (int64_t columns = 1; columns <= 70; ++columns) {
    for (const float lowest : {0.0f, kNone}) {
      check<float>(GetParam().function(), columns, lowest);
      check<uint16_t>(GetParam().function(), columns, lowest);
    }
  }
}

TEST_P(BatchNormTest, WhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = -kNone;
  const GuardedVector<float> src{nan, inf, -inf, inf, 3e38f};
  const GuardedVector<float> scale{1, 1, 1, -1, 4}, shift{0, 0, 0, 0, 0};
  GuardedVector<float> dst(5);
  GuardedVector<uint16_t> halved, halves_of_dst(5);
  for (const float value : src) {
    halved.push_back(float_to_bf16(value));
  }
  run<float>(GetParam().function(), {5, scale.data(), shift.data(), 0},
             {src.data(), dst.data(), 1, 5, 5});
  run<uint16_t>(GetParam().function(), {5, scale.data(), shift.data(), 0},
                {halved.data(), halves_of_dst.data(), 1, 5, 5});
  for (size_t i = 0; i < 5; ++i) {
    const float of_half = bf16_to_float(halves_of_dst[i]);
    if (i == 0) {
      EXPECT_TRUE(std::isnan(dst[i]) && std::isnan(of_half));
      continue;
    }
    const float expected = i == 1 || i == 4 ? inf : 0.0f;
    EXPECT_EQ(dst[i], expected) << i;
    EXPECT_EQ(of_half, expected) << i;
  }
}

template <typename T>
void check_threads(bool bf16) {
  constexpr int64_t kRows = 700, kColumns = 131, kStride = 160;
  const auto src = numbers<T>(kRows * kStride, 0.9f);
  const BatchNorm affine(floats(kColumns, 0.3f), floats(kColumns, 0.8f), 0.0f, bf16);
  GuardedVector<T> one(static_cast<size_t>(kRows * kColumns)), more(one.size());
  affine.run(BatchNormRows<T>{src.data(), one.data(), kRows, kStride, kColumns});
  {
    const Threads threads(3);
    affine.run(BatchNormRows<T>{src.data(), more.data(), kRows, kStride, kColumns});
  }
  ASSERT_EQ(one, more);
  const auto scale = floats(kColumns, 0.3f), shift = floats(kColumns, 0.8f);
  for (size_t i = 0; i < one.size(); ++i) {
    const size_t row = i / kColumns, c = i % kColumns;
    expect_near(one[i], src[row * kStride + c], scale[c], shift[c], 0.0f);
  }
}

TEST(BatchNorm, Threads) {
  check_threads<float>(false);
  check_threads<uint16_t>(true);
}

// The bits of a NaN in the norm's own parameters must not round to a number.
TEST(BatchNorm, EveryNaNOfNumbers) {
  const float odd = std::bit_cast<float>(0x7fffffffu);
  const GuardedVector<float> scale{odd, 1}, shift{0, odd};
  const GuardedVector<uint16_t> src{0x3f80, 0x3f80};
  GuardedVector<uint16_t> dst(2);
  BatchNorm(scale, shift, kNone, true)
      .run(BatchNormRows<uint16_t>{src.data(), dst.data(), 1, 2, 2});
  EXPECT_TRUE(std::isnan(bf16_to_float(dst[0])));
  EXPECT_TRUE(std::isnan(bf16_to_float(dst[1])));
}

TEST(BatchNorm, RefusesOtherCounts) {
  EXPECT_THROW(BatchNorm(GuardedVector<float>(3), GuardedVector<float>(4), 0.0f, false),
               std::invalid_argument);
}

TEST(BatchNormList, EndsInRef) { EXPECT_EQ(batch_norm_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
